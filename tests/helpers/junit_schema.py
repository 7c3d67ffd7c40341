"""JUnit XML as Jenkins reads it: junit-10.xsd of its xUnit plugin, as far as it is used here."""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree import ElementTree as ET

TEXT = {"message", "type"}
SCHEMA: Mapping[str, tuple[set[str], set[str], set[str]]] = {
    # element: (required attributes, optional ones, children), of Jenkins' junit-10.xsd
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors"},
        {"group", "time", "skipped", "timestamp", "hostname", "id", "package", "file"},
        {"testsuite", "properties", "testcase", "system-out", "system-err"},
    ),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, set(), set()),
    "testcase": (
        {"name"},
        {"time", "classname", "group"},
        {"skipped", "error", "failure", "system-out", "system-err"},
    ),
    "failure": (set(), TEXT, set()),
    "error": (set(), TEXT, set()),
    "skipped": (set(), TEXT, set()),
    "system-out": (set(), set(), set()),
}


def valid(element: ET.Element) -> ET.Element:
    """As the schema says, all the way down."""
    required, optional, children = SCHEMA[element.tag]
    assert required <= set(element.attrib) <= required | optional, element.tag
    for child in element:
        assert child.tag in children, f"{child.tag} in {element.tag}"
        valid(child)
    if element.tag == "testsuite":
        for kind, tag in (
            ("tests", "testcase"),
            ("failures", "failure"),
            ("errors", "error"),
            ("skipped", "skipped"),
        ):
            assert int(element.attrib.get(kind, 0)) == len(list(element.iter(tag))), kind
    return element
