#!/bin/sh
# Makes the virtual environment $VENV (default .venv) with the newest suitable Python, or with
# $PYTHON, and installs rtsim into it:
#
#   tools/setup.sh run      what flying needs
#   tools/setup.sh fly      and what flying by hand needs
#   tools/setup.sh dev      and what the tests need
#   tools/setup.sh bench    and what the comparisons of `make bench` need
#   tools/setup.sh mutants  and what `make mutants` needs
#   tools/setup.sh docs     what `make docs` needs
#   tools/setup.sh dist     what `make dist` needs
#   tools/setup.sh oldest   what the tests need, each dependency at its lower bound
#
# Done once: until pyproject.toml changes, the next call only looks and returns.
set -eu
cd "$(dirname "$0")/.."

extra=${1:-run}
VENV=${VENV:-.venv}
PYTHON=${PYTHON:-}
WANTED="3.11 to 3.14"

fail() {
    echo "setup: $*" >&2
    exit 1
}

runs() { # is there a Python of a wanted version behind this name?
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null
}

makes_venvs() { # Debian and Ubuntu ship Python without this part
    "$1" -c 'import ensurepip, venv' 2>/dev/null
}

version() {
    "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])'
}

pick() { # the newest suitable Python on PATH, one that can make environments before one that cannot
    candidates="python3.14 python3.13 python3.12 python3.11 python3 python"
    for python in $candidates; do
        if runs "$python" && makes_venvs "$python"; then
            echo "$python"
            return
        fi
    done
    for python in $candidates; do
        if runs "$python"; then
            echo "$python"
            return
        fi
    done
}

add_ensurepip() { # $1: a Python without it
    package="python$(version "$1")-venv"
    command -v apt-get >/dev/null ||
        fail "$1 cannot make virtual environments (no ensurepip); install the part of it that can"
    if [ "$(id -u)" = 0 ]; then
        root=""
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        root="sudo -n"
    else
        fail "$1 cannot make virtual environments yet. Type
    sudo apt-get install $package
and then the same make command again."
    fi
    echo "Debian's and Ubuntu's Python comes without the part that makes virtual environments;"
    echo "installing the system package $package with apt-get."
    {
        $root apt-get update -qq &&
            $root env DEBIAN_FRONTEND=noninteractive \
                apt-get install -y -qq --no-install-recommends "$package"
    } >"$log" 2>&1 || {
        cat "$log" >&2
        fail "apt-get could not install $package; install it by hand, then try again"
    }
    makes_venvs "$1" || fail "$package is installed, but $1 still cannot make environments"
}

make_venv() {
    if [ -n "$PYTHON" ]; then
        runs "$PYTHON" || fail "PYTHON=$PYTHON is not a Python $WANTED; name another, or none"
        python=$PYTHON
    else
        python=$(pick)
        [ -n "$python" ] || fail "no Python $WANTED on PATH. Install one (on Debian and Ubuntu:
    sudo apt-get install python3 python3-venv), or name it: make PYTHON=/path/to/python3 ..."
    fi
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    makes_venvs "$python" || add_ensurepip "$python"
    echo "Making a virtual environment in $VENV with $(command -v "$python") ($(version "$python"));"
    echo "all that follows goes there, and 'make clean' removes it."
    "$python" -m venv --clear "$VENV"
}

kept() { # is the environment there, does it work, and is it of the Python that was asked for?
    [ -x "$VENV/bin/python" ] && runs "$VENV/bin/python" && "$VENV/bin/python" -c 'import pip' &&
        { [ -z "$PYTHON" ] || [ "$(version "$PYTHON")" = "$(version "$VENV/bin/python")" ]; }
} 2>/dev/null

if [ "$extra" = oldest ]; then # some versions of that age have no wheels for Python 3.13
    PYTHON=${PYTHON:-python3.11}
    { runs "$PYTHON" && [ "$(version "$PYTHON")" = 3.11 ]; } ||
        fail "the lower bounds are tested with Python 3.11, the oldest that rtsim runs on, and
    $PYTHON is none. Install it, or name it: make test-oldest PYTHON=/path/to/python3.11"
fi
kept || make_venv
exec "$VENV/bin/python" tools/setup.py "$extra"
