"""A DAG of Airflow 2.4 or later: every night's folder by `dedup-night`. Airflow repeats what fails."""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow import DAG
from airflow.operators.bash import BashOperator

with DAG(
    "simhbase_dedup",
    schedule="0 2 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
):
    # A task of Bash fails with any exit code but 0, and the script ends with 0 where the command ends with 3.
    BashOperator(
        task_id="dedup",
        bash_command="/opt/simhbase/dedup-night /corpus/{{ ds }} /lists/{{ ds }} --master spark://master:7077",
        env={"ATTEMPTS": "1", "ALARM": "mail -s dedup ops@example.org"},
        append_env=True,
        retries=3,
        retry_delay=timedelta(minutes=5),
        execution_timeout=timedelta(hours=6),
    )
