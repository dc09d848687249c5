"""Bad input to the command line: one clear sentence, the right exit code, nothing half written."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from support.cli import answers, rightslice
from support.dcgm_history import Card, always, history, memory_fields
from support.prometheus import free_port, running_prometheus, write_blocks
from support.web import answering

from rightslice.ledger.ledger import Ledger

pytestmark = pytest.mark.integration

EMPTY_MATRIX = b'{"status":"success","data":{"resultType":"matrix","result":[]}}'
ONE_SERIES = b'{"status":"success","data":[{"__name__":"DCGM_FI_DEV_FB_USED","UUID":"GPU-1"}]}'


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    """Give what was said; never a traceback, never anything on standard output."""
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    return done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["recommend"], "give --prometheus URL, --ledger FILE or --api URL", id="none"),
        pytest.param(["recommend", "--promethues", "x"], "unrecognized arguments", id="flag"),
        pytest.param(["recommend", "--window", "28"], "number with its unit", id="no unit"),
        pytest.param(["recommend", "--window", "5m"], "want between 1h and 400d", id="too short"),
        pytest.param(["recommend", "-o", "xml"], "invalid choice", id="format"),
        pytest.param(["recommend", "--policy", "bold"], "invalid choice", id="policy"),
        pytest.param(["serve", "--listen", "0.0.0.0:80"], "is not loopback", id="beyond loopback"),
        pytest.param(["serve", "--listen", "here"], "want HOST:PORT", id="no port"),
        pytest.param(["serve"], "nothing to fill the ledger from", id="no source"),
        pytest.param(["serve", "--target", "127.0.0.1:94"], "want a URL like", id="no scheme"),
        pytest.param(["serve", "--target", "http://n:94"], "http://n:94/metrics", id="no page"),
        pytest.param(
            ["recommend", "--prometheus", "127.0.0.1:9090"], "want a URL like", id="no URL"
        ),
        pytest.param(
            ["recommend", "--prometheus", "http://u:pw@h"], "must not hold credentials", id="secret"
        ),
        pytest.param(["recommend", "--window", f"{'9' * 20}d"], "number with its", id="for ever"),
        pytest.param(["recommend", "--prices", ""], "name of a file", id="no name"),
        pytest.param(
            ["recommend", "--api", "http://127.0.0.1:1", "--policy", "batch"],
            "--policy is the running service's to decide",
            id="policy for a service",
        ),
        pytest.param(
            ["demo", "--scenario", "none"], "no scenario 'none'; there are", id="scenario"
        ),
        pytest.param(["forecast"], "invalid choice", id="command"),
        pytest.param([], "the following arguments are required", id="nothing"),
    ],
)
def test_bad_usage_ends_with_2(arguments: list[str], words: str) -> None:
    done = rightslice(*arguments)

    assert done.returncode == 2
    assert words in sentence(done)


def test_a_malformed_price_book_names_file_line_and_key(tmp_path: Path) -> None:
    prices = tmp_path / "prices.yml"
    prices.write_text(
        "version: 1\ncurrency: CNY\ncards:\n"
        "  - name: T4\n    nvml_name_regex: Tesla T4\n    price_per_month: 1.9\n",
        encoding="utf-8",
    )

    done = rightslice("recommend", "--ledger", str(tmp_path / "l"), "--prices", str(prices))

    assert done.returncode == 2
    assert "prices.yml, line 6: cards[0].price_per_month is 1.9" in sentence(done)
    assert not (tmp_path / "l").exists()


def test_a_ledger_that_is_not_there_is_not_made_up(tmp_path: Path) -> None:
    done = rightslice("recommend", "--ledger", str(tmp_path / "typo.duckdb"))

    assert done.returncode == 4
    assert "there is no ledger" in sentence(done)
    assert list(tmp_path.iterdir()) == []


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "theirs.duckdb"
    with duckdb.connect(str(file)) as theirs:
        theirs.execute("CREATE TABLE mine (x INTEGER)")
    before = file.read_bytes()

    done = rightslice("recommend", "--ledger", str(file))

    assert done.returncode == 4
    assert "is no ledger of rightslice" in sentence(done)
    assert file.read_bytes() == before


def test_a_channel_that_the_price_book_does_not_have_names_those_it_has(tmp_path: Path) -> None:
    done = rightslice("recommend", "--ledger", str(tmp_path / "l"), "--channel", "moon")

    assert done.returncode == 2
    assert "it has cloud, custom, owned, server" in sentence(done)


def test_a_config_file_with_an_unknown_setting_is_refused_with_its_line(tmp_path: Path) -> None:
    config = tmp_path / "c.yml"
    config.write_text("window: 7d\nwindwo: 8d\n", encoding="utf-8")

    done = rightslice("recommend", "--config", str(config))

    assert done.returncode == 2
    assert "c.yml, line 2: windwo is no setting" in sentence(done)


def test_nobody_listening_ends_with_3() -> None:
    done = rightslice("recommend", "--prometheus", f"http://127.0.0.1:{free_port()}")

    assert done.returncode == 3
    assert "cannot be reached" in sentence(done)


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        pytest.param(401, b"Unauthorized", "refused our credentials", id="401"),
        pytest.param(404, b"not found", "check the URL", id="404"),
        pytest.param(400, b'{"status":"error","error":"bad"}', "refused a query", id="400"),
        pytest.param(200, b"<html>", "did not answer as a Prometheus", id="a web page"),
        pytest.param(
            200,
            b'{"status":"success","data":[],"warnings":["store s1 unavailable"]}',
            "partial answer: store s1 unavailable",
            id="partial",
        ),
    ],
)
def test_a_source_that_cannot_be_read_ends_with_3_and_leaves_the_ledger_as_it_was(
    tmp_path: Path, status: int, body: bytes, words: str
) -> None:
    file = tmp_path / "ledger.duckdb"
    with answering(lambda *_: (status, body)) as url:
        done = rightslice("recommend", "--prometheus", url, "--ledger", str(file))

    assert done.returncode == 3
    assert words in sentence(done)
    ledger = Ledger.open(file)
    assert ledger.span() is None
    ledger.close()


def test_a_source_that_breaks_in_the_middle_keeps_whole_days_only(tmp_path: Path) -> None:
    file = tmp_path / "ledger.duckdb"
    asked = []

    def answer(path: str, body: str, headers: dict[str, str]) -> tuple[int, bytes]:
        if path.endswith("/series"):
            return 200, ONE_SERIES if "DCGM" in body else b'{"status":"success","data":[]}'
        asked.append(body)
        end = time.time() - 3600 * 12
        if len(asked) > 3:
            return 400, b'{"status":"error","errorType":"internal","error":"corrupt block"}'
        values = ",".join(f'[{end - 60 * n:.0f},"5"]' for n in range(60, 0, -1))
        return 200, EMPTY_MATRIX.replace(
            b"[]",
            b'[{"metric":{"__name__":"DCGM_FI_DEV_FB_USED","UUID":"GPU-1"},"values":['
            + values.encode()
            + b"]}]",
        )

    with answering(answer) as url:
        done = rightslice(
            "recommend", "--prometheus", url, "--ledger", str(file), "--window", "10d"
        )

    assert done.returncode == 3
    assert "corrupt block" in sentence(done)
    ledger = Ledger.open(file)
    state = ledger.feeder_state(f"prometheus auto {url}")
    ledger.close()
    assert state is not None
    assert state.complete_until.minute == 0


@pytest.fixture(scope="module")
def odd_prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A password-protected Prometheus in which half of a card's readings are NaN."""
    # The password is "word"; the hash is bcrypt's.
    web = (
        "basic_auth_users: {reader: $2b$04$3ETMyI/E7prTbzgLYQ8vvOj8QrQBRB5kyarL2/yc/lUHxddSG/i1q}\n"
    )
    card = Card(
        "GPU-1",
        {
            **memory_fields(always(3.0)),
            "DCGM_FI_DEV_GPU_UTIL": lambda index, count: float("nan") if index % 2 else 10.0,
        },
    )
    end = int(time.time()) // 3600 * 3600
    lines = history([card], end - 2 * 86_400, 2 * 1440)
    data = write_blocks(tmp_path_factory.mktemp("odd"), lines)
    with running_prometheus(data, web_config=web) as url:
        yield url


def test_a_password_is_asked_for_and_named_as_the_remedy(odd_prometheus: str) -> None:
    done = rightslice("recommend", "--prometheus", odd_prometheus)

    assert done.returncode == 3
    assert "--prometheus.config.file" in sentence(done)


def test_with_the_password_readings_that_are_no_numbers_are_skipped_and_counted(
    odd_prometheus: str, tmp_path: Path
) -> None:
    (tmp_path / "word").write_text("word", encoding="utf-8")
    config = tmp_path / "http.yml"
    config.write_text("basic_auth: {username: reader, password_file: word}\n", encoding="utf-8")

    done = rightslice(
        "recommend",
        *("--prometheus", odd_prometheus, "--prometheus.config.file", str(config)),
        *("--window", "2d", "-o", "json"),
    )

    assert "readings were no values" in done.stderr
    (card,) = answers(done).values()
    assert card["usage"]["busy_ratio"] == pytest.approx(0.1)
    assert card["usage"]["observed_hours"] > 40


def test_an_empty_prometheus_is_no_failure_and_no_advice(tmp_path: Path) -> None:
    end = int(time.time()) // 3600 * 3600
    lines = ["# TYPE other gauge", f"other 1 {end - 600}"]
    with running_prometheus(write_blocks(tmp_path, lines)) as url:
        done = rightslice("recommend", "--prometheus", url)

    assert done.returncode == 0
    assert "holds no GPU metrics" in done.stderr
    assert "No GPU was seen in the window: no advice." in done.stdout


def test_a_ledger_from_a_newer_version_ends_with_4(tmp_path: Path) -> None:
    file = tmp_path / "ledger.duckdb"
    ledger = Ledger.open(file)
    with ledger.transaction("grow old") as run:
        run("INSERT INTO schema_version VALUES (999)")
    ledger.close()

    done = rightslice("recommend", "--ledger", str(file))

    assert done.returncode == 4
    assert "was written by a newer rightslice" in sentence(done)


def test_a_ledger_held_by_another_process_ends_with_4(tmp_path: Path) -> None:
    file = tmp_path / "ledger.duckdb"
    code = (
        "import sys; from pathlib import Path; from rightslice.ledger.ledger import Ledger;"
        f"ledger = Ledger.open(Path({str(file)!r})); print('open', flush=True);"
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()

        done = rightslice("recommend", "--ledger", str(file))

        holder.communicate()
    assert done.returncode == 4
    assert "is held by" in sentence(done)
    assert "name another --ledger" in done.stderr


def test_a_file_that_is_no_ledger_ends_with_4_and_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("shopping list\n" * 500, encoding="utf-8")

    done = rightslice("recommend", "--ledger", str(file))

    assert done.returncode == 4
    assert "cannot be opened" in sentence(done)
    assert file.read_text(encoding="utf-8").startswith("shopping list")


def test_an_api_that_does_not_answer_ends_with_3() -> None:
    done = rightslice("recommend", "--api", f"http://127.0.0.1:{free_port()}")

    assert done.returncode == 3
    assert "no rightslice API answers" in sentence(done)


def test_a_port_that_is_taken_ends_with_a_sentence() -> None:
    with answering(lambda *_: (200, b"")) as url:
        done = rightslice("serve", "--listen", url.removeprefix("http://"), "--prometheus", url)

    assert done.returncode == 1
    assert "cannot listen on 127.0.0.1" in done.stderr
