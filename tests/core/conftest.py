"""The command line, run in this process."""

from __future__ import annotations

import pytest

from pyspark_bloomparquet import cli
from tests.support.commands import Result, Run


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("COLUMNS", "100")

    def call(*arguments: object) -> Result:
        with pytest.raises(SystemExit) as ended:
            cli.main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        return Result(code, out, err)

    return call
