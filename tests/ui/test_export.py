import json

from fakes import NOON, on_summary

from specdash.ui import export


def test_csv_has_units_in_headers_and_empty_cells_for_unknown() -> None:
    rows = [{"Arm": "off", "Decode (tokens/s)": 23.4, "Low": None, "At": NOON}]
    text = export.to_csv(rows).decode("utf-8-sig")
    assert text == "Arm,Decode (tokens/s),Low,At\r\noff,23.4,,2026-03-01T12:00:00+00:00\r\n"


def test_csv_text_cannot_become_a_formula() -> None:
    rows = [{"Note": "=HYPERLINK(1)"}, {"Note": "-1+1"}, {"Note": "@x"}, {"Note": ["+a", "b"]}]
    lines = export.to_csv(rows).decode("utf-8-sig").split("\r\n")
    assert lines[1:5] == ["'=HYPERLINK(1)", "'-1+1", "'@x", '"\'+a, b"']


def test_negative_numbers_stay_numbers() -> None:
    assert export.to_csv([{"x": -1.5}]).decode("utf-8-sig") == "x\r\n-1.5\r\n"


def test_json_of_a_record_keeps_unknown_as_null() -> None:
    document = json.loads(export.to_json(on_summary(ratio_low=None)))
    assert document["verdict"] == "faster"
    assert document["ratio_low"] is None
    assert document["prompts"][0]["prompt_key"] == "p0"
