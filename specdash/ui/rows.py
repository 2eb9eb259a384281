"""Records as table rows: header with its unit -> value. Tables and exports show the same rows."""

from collections.abc import Sequence

from specdash.domain.summary import ArmSummary
from specdash.store.drafters import DrafterShare
from specdash.store.views import HistoryRow, JobView, ModelView, RunView, WorkloadView
from specdash.ui import format as fmt
from specdash.ui import words

Row = dict[str, object]


def arm_rows(arms: Sequence[ArmSummary]) -> list[Row]:
    """One row an arm, with what its verdict rests on."""
    return [_arm_row(a) for a in arms]


def _arm_row(arm: ArmSummary) -> Row:
    acceptance = arm.acceptance
    shows_ratio = arm.status != "pending"  # looking early would bend it
    return {
        "Arm": arm.text,
        "Verdict": words.arm_words(arm),
        "Ratio": arm.ratio if shows_ratio else None,
        "Low": arm.ratio_low if shows_ratio else None,
        "High": arm.ratio_high if shows_ratio else None,
        "Against the fastest": words.standing(arm),
        "Total-time ratio": arm.total_time_ratio if shows_ratio else None,
        "Decode (tokens/s)": arm.decode_tok_s,
        "End to end (tokens/s)": arm.end_to_end_tok_s,
        "First token (s)": arm.prefill_s,
        "Acceptance rate (%)": _share(acceptance.acceptance_rate if acceptance else None),
        "Drafted": acceptance.n_drafted if acceptance else None,
        "Accepted": acceptance.n_accepted if acceptance else None,
        "Tokens per target pass": acceptance.tokens_per_target_pass if acceptance else None,
        "Acceptance length": acceptance.acceptance_length if acceptance else None,
        "Draft coverage (%)": _share(acceptance.draft_coverage if acceptance else None),
        "Equal outputs": None
        if arm.is_baseline
        else fmt.out_of(arm.n_equal, arm.n_compared)
        if arm.n_compared
        else None,
        "Prompts": arm.n_prompts,
        "Runs": arm.n_runs,
        "Status": arm.status,
        "Flags": list(arm.flags),
        "Per-token alpha (%)": _share(acceptance.per_token_alpha if acceptance else None),
        "Accepted of proposed (%)": _share(acceptance.accepted_of_proposed if acceptance else None),
        "Discarded": acceptance.n_discarded if acceptance else None,
        "Runs with counts": fmt.out_of(acceptance.n_known, acceptance.n_runs)
        if acceptance
        else None,
        "Bootstrap low": arm.bootstrap_low if shows_ratio else None,
        "Bootstrap high": arm.bootstrap_high if shows_ratio else None,
    }


def prompt_rows(arm: ArmSummary) -> list[Row]:
    return [
        {
            "Prompt": p.prompt_key,
            "Category": p.category,
            "Ratio of the prompt": p.ratio,
            "Low over rounds": p.ratio_low,
            "High over rounds": p.ratio_high,
            "off (tokens/s)": p.off_tok_s,
            "on (tokens/s)": p.on_tok_s,
            "Acceptance rate (%)": _share(p.acceptance_rate),
            "Rounds": p.n_rounds,
            "Repeats itself": p.is_degenerate,
        }
        for p in arm.prompts
    ]


def drafter_rows(shares: Sequence[DrafterShare]) -> list[Row]:
    """One row a method of a chained arm."""
    return [
        {
            "Arm": s.arm,
            "Method": s.method,
            "Drafted": s.acceptance.n_drafted,
            "Accepted": s.acceptance.n_accepted,
            "Acceptance rate (%)": _share(s.acceptance.acceptance_rate),
            "Verify passes": s.acceptance.n_verify_steps,
            "Acceptance length": s.acceptance.acceptance_length,
            "Runs": s.n_runs,
        }
        for s in shares
    ]


def run_marks(arms: Sequence[ArmSummary]) -> dict[int, str]:
    """Run id -> what the statistics made of it, where that is not the usual."""
    marks = {i: "far from the others" for a in arms for i in a.outlier_run_ids}
    return marks | {i: "left out, warming up" for a in arms for i in a.excluded_run_ids}


def run_rows(runs: Sequence[RunView], arms: Sequence[ArmSummary]) -> list[Row]:
    """Every raw run, warm-up included and marked."""
    marks = run_marks(arms)
    return [
        {
            "Run": r.run_id,
            "Order": r.order_index + 1,
            "Arm": r.arm,
            "Prompt": r.prompt_key,
            "Round": r.round + 1,
            "Warm-up": r.is_warmup,
            "Decode (tokens/s)": r.decode_tok_s,
            "Tokens": r.n_generated,
            "Decode (s)": r.decode_s,
            "Prefill (s)": r.prefill_s,
            "Acceptance rate (%)": _share(r.acceptance_rate),
            "Drafted": r.n_drafted,
            "Accepted": r.n_accepted,
            "Verify passes": r.n_verify_steps,
            "Plain passes": r.n_plain_steps,
            "Broken rule": "; ".join(r.invalid) or None,
            "Same text as off": r.equal_off,
            "First difference (token)": None
            if r.first_difference is None
            else r.first_difference + 1,
            "Agreement (%)": _share(r.agreement),
            "Class of the difference": words.class_words(r),
            "Ended by": words.stop_reason(r.stop_reason),
            "Mark": "left out, disturbed" if "disturbed" in r.flags else marks.get(r.run_id),
            "Flags": list(r.flags),
            "Peak memory (MiB)": None if r.peak_rss_bytes is None else r.peak_rss_bytes / 2**20,
        }
        for r in runs
    ]


def history_rows(rows: Sequence[HistoryRow]) -> list[Row]:
    return [
        {
            "Experiment": r.experiment_id,
            "Measured": r.measured_at,
            "Workload": r.workload,
            "Version": r.workload_version,
            "Target": r.target,
            "Arm": r.arm,
            "Verdict": words.arm_words(r.summary),
            "Ratio": r.summary.ratio,
            "Low": r.summary.ratio_low,
            "High": r.summary.ratio_high,
            "off (tokens/s)": r.off_tok_s,
            "on (tokens/s)": r.summary.decode_tok_s,
            "Acceptance rate (%)": _share(
                r.summary.acceptance.acceptance_rate if r.summary.acceptance else None
            ),
            "Prompts": r.summary.n_prompts,
            "Runs": r.summary.n_runs,
            "Machine": r.machine,
            "Engine": r.engine,
            "Build": r.engine_build,
            "State": words.JOB_STATES[r.state].word if r.state in words.JOB_STATES else r.state,
            "Flags": list(r.summary.flags),
        }
        for r in rows
    ]


def job_rows(jobs: Sequence[JobView]) -> list[Row]:
    return [
        {
            "Experiment": j.experiment_id,
            "Workload": j.workload,
            "Arms": ", ".join(a for a in j.arms if a != "off"),
            "Finished": j.finished_at,
            "Runs made": j.done,
            "Target": j.target,
            "Queued": j.queued_at,
            "Attempt": j.attempt,
        }
        for j in jobs
    ]


def model_rows(models: Sequence[ModelView]) -> list[Row]:
    return [
        {
            "Name": m.name,
            "Kind": m.kind,
            "Architecture": m.architecture,
            "Quantisation": m.quantisation,
            "Parameters": fmt.parameters(m.n_params) if m.n_params is not None else None,
            "Size (MiB)": None if m.size_bytes is None else m.size_bytes / 2**20,
            "Trained context": m.n_ctx_train,
            "Note": m.problem or m.note,
            "Path": m.path,
            "Also at": "; ".join(m.other_paths) or None,
        }
        for m in models
    ]


def workload_rows(workloads: Sequence[WorkloadView]) -> list[Row]:
    return [
        {
            "Name": w.name,
            "Title": w.title,
            "Prompts": w.n_prompts,
            "Categories": list(w.categories),
            "Version": w.version,
            "Current": w.is_current,
            "Source": w.source,
            "Experiments": w.n_experiments,
            "Created": w.created_at,
        }
        for w in workloads
    ]


def _share(value: float | None) -> float | None:
    return None if value is None else value * 100
