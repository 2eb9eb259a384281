"""``jobs``, ``cancel`` and ``retry``."""

from typing import Annotated

import typer

from specdash.cli.common import JsonOption, open_store
from specdash.cli.output import print_json, print_table, say
from specdash.settings import load_settings

_JobId = Annotated[
    int, typer.Argument(min=0, max=2**53, metavar="ID", help="Job id, as `jobs` lists it.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""

    @app.command()
    def jobs(json: JsonOption = False) -> None:
        """List the queue: running, queued, then finished, newest first."""
        from specdash.store.queries import list_jobs
        from specdash.store.session import read_session

        with read_session(open_store()) as session:
            found = list_jobs(session)
        if json:
            print_json(found)
            return
        if not found:
            say("The queue is empty. Queue something: python -m specdash queue --help")
            return
        print_table(
            ("job", "state", "experiment", "workload", "target", "arms", "done", "total", "error"),
            [
                (
                    j.job_id,
                    j.state,
                    j.experiment_id,
                    j.workload,
                    j.target,
                    " | ".join(j.arms),
                    j.done,
                    j.total,
                    (j.error_text or "").splitlines()[0] if j.error_text else "",
                )
                for j in found
            ],
        )

    @app.command()
    def cancel(job_id: _JobId) -> None:
        """Stop a job: a queued one at once, a running one with its whole process group."""
        from specdash.store.jobs import cancel as cancel_job

        state = cancel_job(open_store(), job_id)
        typer.echo(
            f"Job {job_id} is cancelled."
            if state == "cancelled"
            else f"Job {job_id} is asked to stop; the runs it finished are kept."
        )

    @app.command()
    def retry(job_id: _JobId) -> None:
        """Queue a failed, cancelled or interrupted job again; earlier runs are kept, marked."""
        from specdash.store.jobs import retry as retry_job
        from specdash.worker.launch import ensure_worker

        attempt = retry_job(open_store(), job_id)
        ensure_worker(load_settings())
        typer.echo(f"Job {job_id} is queued again (attempt {attempt}).")
