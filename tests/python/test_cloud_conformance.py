"""The C++ tests of buckets, with a bucket to run them on."""

import os
import pathlib
import subprocess

import pytest

boto3 = pytest.importorskip("boto3")
PROGRAM = pathlib.Path(__file__).parents[2] / "build/wheel/cloud_test"


def test_a_bucket_keeps_the_promises_of_file_systems(s3):
    if not PROGRAM.exists():
        pytest.skip("the C++ tests are not built here")
    boto3.client("s3", endpoint_url=s3.url, **keys(s3)).create_bucket(Bucket="conformance")
    environment = os.environ | s3.environment | {"CELLFEED_TEST_BUCKET": "s3://conformance"}
    done = subprocess.run(
        [PROGRAM, "--gtest_brief=1", "--gtest_filter=S3/*"],
        capture_output=True, text=True, env=environment, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SKIPPED" not in done.stdout, done.stdout


def keys(s3):
    return {
        "aws_access_key_id": s3.environment["AWS_ACCESS_KEY_ID"],
        "aws_secret_access_key": s3.environment["AWS_SECRET_ACCESS_KEY"],
        "region_name": s3.environment["AWS_DEFAULT_REGION"],
    }
