"""Servers, sweeps, calibrations, predictions and advice; models that only a server holds."""

import sqlalchemy as sa
import sqlmodel
from alembic import op

revision = '0002'
down_revision = '0001'
branch_labels = None
depends_on = None

JOB_STATES = "'queued', 'running', 'succeeded', 'failed', 'cancelled', 'interrupted'"


def upgrade() -> None:
    op.create_table('engine_server',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('name', sqlmodel.AutoString(length=100), nullable=False),
    sa.Column('engine', sqlmodel.AutoString(length=32), nullable=False),
    sa.Column('url', sqlmodel.AutoString(length=2000), nullable=False),
    sa.Column('baseline_url', sqlmodel.AutoString(length=2000), nullable=True),
    sa.Column('arm_text', sqlmodel.AutoString(length=2000), nullable=True),
    sa.Column('last_test', sa.JSON(), nullable=True),
    sa.Column('added_at', sqlmodel.UTCDateTime(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_engine_server')),
    sa.UniqueConstraint('name', name=op.f('uq_engine_server_name'))
    )
    op.create_table('calibration',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('machine_id', sa.Integer(), nullable=False),
    sa.Column('target_model_id', sa.Integer(), nullable=False),
    sa.Column('experiment_id', sa.Integer(), nullable=True),
    sa.Column('key', sqlmodel.AutoString(length=64), nullable=False),
    sa.Column('key_fields', sa.JSON(), nullable=False),
    sa.Column('data', sa.JSON(), nullable=False),
    sa.Column('created_at', sqlmodel.UTCDateTime(), nullable=False),
    sa.ForeignKeyConstraint(['experiment_id'], ['experiment.id'], name=op.f('fk_calibration_experiment_id')),
    sa.ForeignKeyConstraint(['machine_id'], ['machine.id'], name=op.f('fk_calibration_machine_id')),
    sa.ForeignKeyConstraint(['target_model_id'], ['model.id'], name=op.f('fk_calibration_target_model_id')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_calibration'))
    )
    for column in ('experiment_id', 'key', 'machine_id', 'target_model_id'):
        op.create_index(f'ix_calibration_{column}', 'calibration', [column], unique=False)
    op.create_table('prediction',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('experiment_id', sa.Integer(), nullable=False),
    sa.Column('arm_text', sqlmodel.AutoString(length=2000), nullable=False),
    sa.Column('ratio', sa.Float(), nullable=True),
    sa.Column('ratio_low', sa.Float(), nullable=True),
    sa.Column('ratio_high', sa.Float(), nullable=True),
    sa.Column('data', sa.JSON(), nullable=False),
    sa.ForeignKeyConstraint(['experiment_id'], ['experiment.id'], name=op.f('fk_prediction_experiment_id')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_prediction')),
    sa.UniqueConstraint('experiment_id', 'arm_text', name=op.f('uq_prediction_experiment_id_arm_text'))
    )
    op.create_table('advice',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('target_model_id', sa.Integer(), nullable=False),
    sa.Column('workload_id', sa.Integer(), nullable=False),
    sa.Column('state', sqlmodel.AutoString(length=16), nullable=False),
    sa.Column('phase', sqlmodel.AutoString(length=64), nullable=True),
    sa.Column('request', sa.JSON(), nullable=False),
    sa.Column('request_hash', sqlmodel.AutoString(length=64), nullable=False),
    sa.Column('requester', sqlmodel.AutoString(length=64), nullable=True),
    sa.Column('baseline_experiment_id', sa.Integer(), nullable=True),
    sa.Column('search_experiment_id', sa.Integer(), nullable=True),
    sa.Column('confirm_experiment_id', sa.Integer(), nullable=True),
    sa.Column('calibration_id', sa.Integer(), nullable=True),
    sa.Column('plan', sa.JSON(), nullable=True),
    sa.Column('result', sa.JSON(), nullable=True),
    sa.Column('cancel_requested', sa.Boolean(), nullable=False),
    sa.Column('error_text', sa.Text(), nullable=True),
    sa.Column('created_at', sqlmodel.UTCDateTime(), nullable=False),
    sa.Column('started_at', sqlmodel.UTCDateTime(), nullable=True),
    sa.Column('finished_at', sqlmodel.UTCDateTime(), nullable=True),
    sa.CheckConstraint(f'state IN ({JOB_STATES})', name=op.f('ck_advice_state')),
    sa.ForeignKeyConstraint(['baseline_experiment_id'], ['experiment.id'], name=op.f('fk_advice_baseline_experiment_id')),
    sa.ForeignKeyConstraint(['calibration_id'], ['calibration.id'], name=op.f('fk_advice_calibration_id')),
    sa.ForeignKeyConstraint(['confirm_experiment_id'], ['experiment.id'], name=op.f('fk_advice_confirm_experiment_id')),
    sa.ForeignKeyConstraint(['search_experiment_id'], ['experiment.id'], name=op.f('fk_advice_search_experiment_id')),
    sa.ForeignKeyConstraint(['target_model_id'], ['model.id'], name=op.f('fk_advice_target_model_id')),
    sa.ForeignKeyConstraint(['workload_id'], ['workload.id'], name=op.f('fk_advice_workload_id')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_advice'))
    )
    for column in ('request_hash', 'target_model_id', 'workload_id'):
        op.create_index(f'ix_advice_{column}', 'advice', [column], unique=False)
    with op.batch_alter_table('experiment') as batch:
        batch.add_column(sa.Column('server', sa.JSON(), nullable=True))
        batch.add_column(sa.Column('purpose', sqlmodel.AutoString(length=16), nullable=False, server_default='measure'))
        batch.create_check_constraint(
            op.f('ck_experiment_purpose'),
            "purpose IN ('measure', 'calibrate', 'baseline', 'search', 'confirm')",
        )
    with op.batch_alter_table('experiment') as batch:
        batch.alter_column('purpose', server_default=None)
    with op.batch_alter_table('run') as batch:
        batch.add_column(sa.Column('n_parallel', sa.Integer(), nullable=False, server_default='1'))
    with op.batch_alter_table('run') as batch:
        batch.alter_column('n_parallel', server_default=None)
    with op.batch_alter_table('model') as batch:
        batch.alter_column('size_bytes', existing_type=sa.BigInteger(), nullable=True)


def downgrade() -> None:
    # Without these columns, such rows would pass for plain measurements.
    op.execute('DELETE FROM run WHERE n_parallel > 1')
    op.execute('UPDATE model SET size_bytes = 0 WHERE size_bytes IS NULL')
    with op.batch_alter_table('model') as batch:
        batch.alter_column('size_bytes', existing_type=sa.BigInteger(), nullable=False)
    with op.batch_alter_table('run') as batch:
        batch.drop_column('n_parallel')
    with op.batch_alter_table('experiment') as batch:
        batch.drop_constraint(op.f('ck_experiment_purpose'), type_='check')
        batch.drop_column('purpose')
        batch.drop_column('server')
    op.drop_table('advice')
    op.drop_table('prediction')
    op.drop_table('calibration')
    op.drop_table('engine_server')
