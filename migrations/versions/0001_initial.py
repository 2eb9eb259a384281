"""All tables of the first release, and the one row of ``meta``."""

import sqlalchemy as sa
import sqlmodel
from alembic import op

revision = '0001'
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('arm',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('identity', sqlmodel.AutoString(length=64), nullable=False),
    sa.Column('text', sqlmodel.AutoString(length=2000), nullable=False),
    sa.Column('canonical', sa.JSON(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_arm')),
    sa.UniqueConstraint('identity', name=op.f('uq_arm_identity'))
    )
    op.create_table('machine',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('fingerprint', sqlmodel.AutoString(length=64), nullable=False),
    sa.Column('name', sqlmodel.AutoString(length=200), nullable=False),
    sa.Column('facts', sa.JSON(), nullable=False),
    sa.Column('first_seen_at', sqlmodel.UTCDateTime(), nullable=False),
    sa.Column('last_seen_at', sqlmodel.UTCDateTime(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_machine')),
    sa.UniqueConstraint('fingerprint', name=op.f('uq_machine_fingerprint'))
    )
    op.create_table('meta',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('revision', sa.Integer(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_meta'))
    )
    op.create_table('model',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('content_hash', sqlmodel.AutoString(length=64), nullable=False),
    sa.Column('name', sqlmodel.AutoString(length=200), nullable=False),
    sa.Column('kind', sqlmodel.AutoString(length=32), nullable=False),
    sa.Column('architecture', sqlmodel.AutoString(length=64), nullable=True),
    sa.Column('quantisation', sqlmodel.AutoString(length=32), nullable=True),
    sa.Column('n_params', sa.BigInteger(), nullable=True),
    sa.Column('size_bytes', sa.BigInteger(), nullable=False),
    sa.Column('n_ctx_train', sa.Integer(), nullable=True),
    sa.Column('vocab_hash', sqlmodel.AutoString(length=64), nullable=True),
    sa.Column('derived_from_hash', sqlmodel.AutoString(length=64), nullable=True),
    sa.Column('note', sqlmodel.AutoString(length=500), nullable=True),
    sa.Column('facts', sa.JSON(), nullable=False),
    sa.Column('added_at', sqlmodel.UTCDateTime(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_model')),
    sa.UniqueConstraint('content_hash', name=op.f('uq_model_content_hash')),
    sa.UniqueConstraint('name', name=op.f('uq_model_name'))
    )
    op.create_table('worker',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('host', sqlmodel.AutoString(length=200), nullable=False),
    sa.Column('pid', sa.Integer(), nullable=False),
    sa.Column('pid_started_at', sa.Float(), nullable=False),
    sa.Column('version', sqlmodel.AutoString(length=32), nullable=False),
    sa.Column('started_at', sqlmodel.UTCDateTime(), nullable=False),
    sa.Column('heartbeat_at', sqlmodel.UTCDateTime(), nullable=False),
    sa.Column('stopped_at', sqlmodel.UTCDateTime(), nullable=True),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_worker'))
    )
    op.create_table('workload',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('name', sqlmodel.AutoString(length=100), nullable=False),
    sa.Column('version', sqlmodel.AutoString(length=64), nullable=False),
    sa.Column('title', sqlmodel.AutoString(length=200), nullable=False),
    sa.Column('description', sqlmodel.AutoString(length=2000), nullable=False),
    sa.Column('weights', sa.JSON(), nullable=False),
    sa.Column('source', sqlmodel.AutoString(length=16), nullable=False),
    sa.Column('is_current', sa.Boolean(), nullable=False),
    sa.Column('created_at', sqlmodel.UTCDateTime(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_workload')),
    sa.UniqueConstraint('name', 'version', name=op.f('uq_workload_name_version'))
    )
    op.create_index('ix_workload_name', 'workload', ['name'], unique=False)
    op.create_table('experiment',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('workload_id', sa.Integer(), nullable=False),
    sa.Column('target_model_id', sa.Integer(), nullable=False),
    sa.Column('target_path', sqlmodel.AutoString(length=4096), nullable=False),
    sa.Column('machine_id', sa.Integer(), nullable=True),
    sa.Column('engine', sqlmodel.AutoString(length=32), nullable=False),
    sa.Column('protocol', sa.JSON(), nullable=False),
    sa.Column('generation', sa.JSON(), nullable=False),
    sa.Column('base_key', sqlmodel.AutoString(length=64), nullable=True),
    sa.Column('base_key_fields', sa.JSON(), nullable=False),
    sa.Column('environment', sa.JSON(), nullable=False),
    sa.Column('request_hash', sqlmodel.AutoString(length=64), nullable=False),
    sa.Column('requester', sqlmodel.AutoString(length=64), nullable=True),
    sa.Column('author', sqlmodel.AutoString(length=100), nullable=True),
    sa.Column('note', sqlmodel.AutoString(length=2000), nullable=True),
    sa.Column('tags', sa.JSON(), nullable=False),
    sa.Column('created_at', sqlmodel.UTCDateTime(), nullable=False),
    sa.ForeignKeyConstraint(['machine_id'], ['machine.id'], name=op.f('fk_experiment_machine_id')),
    sa.ForeignKeyConstraint(['target_model_id'], ['model.id'], name=op.f('fk_experiment_target_model_id')),
    sa.ForeignKeyConstraint(['workload_id'], ['workload.id'], name=op.f('fk_experiment_workload_id')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_experiment'))
    )
    op.create_index('ix_experiment_base_key', 'experiment', ['base_key'], unique=False)
    op.create_index('ix_experiment_created_at', 'experiment', ['created_at'], unique=False)
    op.create_index('ix_experiment_machine_id', 'experiment', ['machine_id'], unique=False)
    op.create_index('ix_experiment_request_hash', 'experiment', ['request_hash'], unique=False)
    op.create_index('ix_experiment_target_model_id', 'experiment', ['target_model_id'], unique=False)
    op.create_index('ix_experiment_workload_id', 'experiment', ['workload_id'], unique=False)
    op.create_table('model_path',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('model_id', sa.Integer(), nullable=True),
    sa.Column('host', sqlmodel.AutoString(length=200), nullable=False),
    sa.Column('path', sqlmodel.AutoString(length=4096), nullable=False),
    sa.Column('size_bytes', sa.BigInteger(), nullable=False),
    sa.Column('mtime_ns', sa.BigInteger(), nullable=False),
    sa.Column('problem', sqlmodel.AutoString(length=1000), nullable=True),
    sa.Column('seen_at', sqlmodel.UTCDateTime(), nullable=False),
    sa.ForeignKeyConstraint(['model_id'], ['model.id'], name=op.f('fk_model_path_model_id')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_model_path')),
    sa.UniqueConstraint('host', 'path', name=op.f('uq_model_path_host_path'))
    )
    op.create_index('ix_model_path_model_id', 'model_path', ['model_id'], unique=False)
    op.create_table('prompt',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('workload_id', sa.Integer(), nullable=False),
    sa.Column('position', sa.Integer(), nullable=False),
    sa.Column('key', sqlmodel.AutoString(length=100), nullable=False),
    sa.Column('category', sqlmodel.AutoString(length=100), nullable=False),
    sa.Column('messages', sa.JSON(), nullable=False),
    sa.Column('text', sa.Text(), nullable=True),
    sa.Column('max_tokens', sa.Integer(), nullable=True),
    sa.ForeignKeyConstraint(['workload_id'], ['workload.id'], name=op.f('fk_prompt_workload_id')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_prompt')),
    sa.UniqueConstraint('workload_id', 'position', name=op.f('uq_prompt_workload_id_position'))
    )
    op.create_table('experiment_arm',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('experiment_id', sa.Integer(), nullable=False),
    sa.Column('arm_id', sa.Integer(), nullable=False),
    sa.Column('position', sa.Integer(), nullable=False),
    sa.Column('text', sqlmodel.AutoString(length=2000), nullable=False),
    sa.Column('drafts', sa.JSON(), nullable=False),
    sa.Column('status', sqlmodel.AutoString(length=16), nullable=False),
    sa.Column('reason', sqlmodel.AutoString(length=2000), nullable=True),
    sa.Column('resolved', sa.JSON(), nullable=False),
    sa.Column('arm_key', sqlmodel.AutoString(length=64), nullable=True),
    sa.CheckConstraint("status IN ('pending', 'measured', 'inactive', 'unsupported', 'partial', 'failed')", name=op.f('ck_experiment_arm_status')),
    sa.ForeignKeyConstraint(['arm_id'], ['arm.id'], name=op.f('fk_experiment_arm_arm_id')),
    sa.ForeignKeyConstraint(['experiment_id'], ['experiment.id'], name=op.f('fk_experiment_arm_experiment_id')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_experiment_arm')),
    sa.UniqueConstraint('experiment_id', 'position', name=op.f('uq_experiment_arm_experiment_id_position'))
    )
    op.create_index('ix_experiment_arm_arm_id', 'experiment_arm', ['arm_id'], unique=False)
    op.create_table('job',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('experiment_id', sa.Integer(), nullable=False),
    sa.Column('state', sqlmodel.AutoString(length=16), nullable=False),
    sa.Column('priority', sa.Integer(), nullable=False),
    sa.Column('attempt', sa.Integer(), nullable=False),
    sa.Column('queued_at', sqlmodel.UTCDateTime(), nullable=False),
    sa.Column('started_at', sqlmodel.UTCDateTime(), nullable=True),
    sa.Column('finished_at', sqlmodel.UTCDateTime(), nullable=True),
    sa.Column('worker_id', sa.Integer(), nullable=True),
    sa.Column('runner_pid', sa.Integer(), nullable=True),
    sa.Column('runner_started_at', sa.Float(), nullable=True),
    sa.Column('heartbeat_at', sqlmodel.UTCDateTime(), nullable=True),
    sa.Column('phase', sqlmodel.AutoString(length=64), nullable=True),
    sa.Column('done', sa.Integer(), nullable=False),
    sa.Column('total', sa.Integer(), nullable=True),
    sa.Column('eta_s', sa.Float(), nullable=True),
    sa.Column('cancel_requested', sa.Boolean(), nullable=False),
    sa.Column('error_kind', sqlmodel.AutoString(length=32), nullable=True),
    sa.Column('error_text', sa.Text(), nullable=True),
    sa.Column('log_path', sqlmodel.AutoString(length=4096), nullable=True),
    sa.Column('time_limit_s', sa.Float(), nullable=True),
    sa.CheckConstraint("state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled', 'interrupted')", name=op.f('ck_job_state')),
    sa.ForeignKeyConstraint(['experiment_id'], ['experiment.id'], name=op.f('fk_job_experiment_id')),
    sa.ForeignKeyConstraint(['worker_id'], ['worker.id'], name=op.f('fk_job_worker_id')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_job')),
    sa.UniqueConstraint('experiment_id', name=op.f('uq_job_experiment_id'))
    )
    op.create_index('ix_job_state_priority', 'job', ['state', 'priority', 'id'], unique=False)
    op.create_table('run',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('experiment_id', sa.Integer(), nullable=False),
    sa.Column('experiment_arm_id', sa.Integer(), nullable=False),
    sa.Column('prompt_id', sa.Integer(), nullable=False),
    sa.Column('attempt', sa.Integer(), nullable=False),
    sa.Column('round', sa.Integer(), nullable=False),
    sa.Column('repeat', sa.Integer(), nullable=False),
    sa.Column('order_index', sa.Integer(), nullable=False),
    sa.Column('is_warmup', sa.Boolean(), nullable=False),
    sa.Column('started_at', sqlmodel.UTCDateTime(), nullable=False),
    sa.Column('n_prompt', sa.Integer(), nullable=True),
    sa.Column('n_generated', sa.Integer(), nullable=False),
    sa.Column('prefill_s', sa.Float(), nullable=True),
    sa.Column('decode_s', sa.Float(), nullable=True),
    sa.Column('n_verify_steps', sa.Integer(), nullable=True),
    sa.Column('n_plain_steps', sa.Integer(), nullable=True),
    sa.Column('n_drafted', sa.Integer(), nullable=True),
    sa.Column('n_accepted', sa.Integer(), nullable=True),
    sa.Column('n_discarded', sa.Integer(), nullable=True),
    sa.Column('n_rejected_steps', sa.Integer(), nullable=True),
    sa.Column('n_max', sa.Integer(), nullable=True),
    sa.Column('accepted_histogram', sa.JSON(), nullable=True),
    sa.Column('drafted_histogram', sa.JSON(), nullable=True),
    sa.Column('full_histogram', sa.JSON(), nullable=True),
    sa.Column('draft_s', sa.Float(), nullable=True),
    sa.Column('verify_s', sa.Float(), nullable=True),
    sa.Column('plain_s', sa.Float(), nullable=True),
    sa.Column('other_s', sa.Float(), nullable=True),
    sa.Column('drafter_counters', sa.JSON(), nullable=False),
    sa.Column('stop_reason', sqlmodel.AutoString(length=16), nullable=False),
    sa.Column('text', sa.Text(), nullable=False),
    sa.Column('output_hash', sqlmodel.AutoString(length=64), nullable=False),
    sa.Column('trace', sa.LargeBinary(), nullable=True),
    sa.Column('equal_off', sa.Boolean(), nullable=True),
    sa.Column('first_difference', sa.Integer(), nullable=True),
    sa.Column('agreement', sa.Float(), nullable=True),
    sa.Column('is_prefix', sa.Boolean(), nullable=True),
    sa.Column('split_class', sqlmodel.AutoString(length=16), nullable=True),
    sa.Column('split_margin', sa.Float(), nullable=True),
    sa.Column('split_rank', sa.Integer(), nullable=True),
    sa.Column('split_flips', sa.Boolean(), nullable=True),
    sa.Column('split_logit_change', sa.Float(), nullable=True),
    sa.Column('flags', sa.JSON(), nullable=False),
    sa.Column('peak_rss_bytes', sa.BigInteger(), nullable=True),
    sa.ForeignKeyConstraint(['experiment_arm_id'], ['experiment_arm.id'], name=op.f('fk_run_experiment_arm_id')),
    sa.ForeignKeyConstraint(['experiment_id'], ['experiment.id'], name=op.f('fk_run_experiment_id')),
    sa.ForeignKeyConstraint(['prompt_id'], ['prompt.id'], name=op.f('fk_run_prompt_id')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_run')),
    sa.UniqueConstraint('experiment_id', 'attempt', 'order_index', name=op.f('uq_run_experiment_id_attempt_order_index'))
    )
    op.create_index('ix_run_experiment_arm_id', 'run', ['experiment_arm_id'], unique=False)
    op.create_index('ix_run_prompt_id', 'run', ['prompt_id'], unique=False)
    op.execute('INSERT INTO meta (id, revision) VALUES (1, 0)')


def downgrade() -> None:
    op.drop_table('run')
    op.drop_table('job')
    op.drop_table('experiment_arm')
    op.drop_table('prompt')
    op.drop_table('model_path')
    op.drop_table('experiment')
    op.drop_table('workload')
    op.drop_table('worker')
    op.drop_table('model')
    op.drop_table('meta')
    op.drop_table('machine')
    op.drop_table('arm')
