# shellcheck shell=sh
# Sourced by ./gossamer, ./check and ./bench, with $here set to the checkout. `prepare NAME KIND` makes $here/.venv fit
# for KIND (run or check) or ends the script with a message. After `beside NAME`, it is $here/.venv-NAME that is made
# fit, for the programs that NAME is compared with: this one is not installed there. What it leaves behind:
#
#   .venv/setup/place       where the checkout was, which Python was used, what GOSSAMER_PYTHON said; written last
#   .venv/setup/*.lock      copies of what was installed, to notice a change without asking Python
#   .venv/setup.log         what venv and pip said
#   .venv/lock/             held while somebody sets up: pid of the script, and of the venv or pip that it waits for
#
# Only POSIX tools are used, and on a run that finds all in order only `cmp`.

# shellcheck disable=SC2154  # here: set by the script that sources this one
venv=$here/.venv
log=$venv/setup.log
# More than any installation should need; then a person is told instead of waiting for ever.
lock_patience_seconds=900
# A script writes its pid right after it made the lock directory; one without a pid for this long was killed between.
lock_grace_seconds=5

beside() {
    venv=$here/.venv-$1
    log=$venv/setup.log
}

say() {
    printf '%s: %s\n' "$name" "$*" >&2
}

fail() {
    say "$@"
    exit 1
}

# --- does what is there still fit? -------------------------------------------------------------------------------------

same_file() {
    [ -r "$2" ] && { cmp -s "$1" "$2" 2>/dev/null || [ "$(cat "$1")" = "$(cat "$2")" ]; }
}

same_place() {
    [ -x "$venv/bin/python" ] && [ -r "$venv/setup/place" ] || return 1
    { read -r place && read -r base && read -r asked; } <"$venv/setup/place" || return 1
    # The base interpreter is recorded with all links resolved: a python3 that now means another version differs.
    # shellcheck disable=SC3013  # -ef: in dash, bash, ksh, zsh and busybox, and POSIX since 2024
    [ "$place" = "$here" ] && [ "$venv/bin/python" -ef "$base" ] &&
        { [ -z "${GOSSAMER_PYTHON:-}" ] || [ "asked:$GOSSAMER_PYTHON" = "$asked" ]; }
}

same_packages() {
    same_file "$here/requirements/pip.lock" "$venv/setup/pip.lock" &&
        same_file "$here/requirements/$kind.lock" "$venv/setup/$kind.lock" &&
        same_file "$here/pyproject.toml" "$venv/setup/pyproject.toml"
}

# --- one at a time -----------------------------------------------------------------------------------------------------

holder_is_gone() {
    holder=
    worker=
    [ ! -r "$venv/lock/pid" ] || read -r holder <"$venv/lock/pid" || :
    [ ! -r "$venv/lock/worker" ] || read -r worker <"$venv/lock/worker" || :
    if [ -z "$holder" ]; then
        [ "$nameless_seconds" -ge "$lock_grace_seconds" ]
        return
    fi
    # A killed script may leave its pip running: that one still writes here.
    ! kill -0 "$holder" 2>/dev/null && { [ -z "$worker" ] || ! kill -0 "$worker" 2>/dev/null; }
}

take_lock() {
    mkdir -p "$venv" 2>/dev/null && [ -w "$venv" ] || fail "cannot write to $venv; run this once as the owner of $here"
    waited_seconds=0
    nameless_seconds=0
    while ! mkdir "$venv/lock" 2>/dev/null; do
        if holder_is_gone; then
            # Judged again under a lock of its own: another waiter may have replaced the stale lock with its live one.
            if mkdir "$venv/lock.stale" 2>/dev/null; then
                ! holder_is_gone || rm -rf "$venv/lock"
                rmdir "$venv/lock.stale"
                nameless_seconds=0
                continue
            fi
        fi
        [ "$waited_seconds" -ne 1 ] || say "waiting for process ${holder:-?}, which is setting up $venv"
        [ "$waited_seconds" -lt "$lock_patience_seconds" ] ||
            fail "gave up waiting for process ${holder:-?}; if no set-up is running, remove $venv/lock and $venv/lock.stale"
        sleep 1
        waited_seconds=$((waited_seconds + 1))
        if [ -z "$holder" ]; then nameless_seconds=$((nameless_seconds + 1)); else nameless_seconds=0; fi
    done
    worker=
    trap 'give_lock_back' EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    echo $$ >"$venv/lock/pid"
}

give_lock_back() {
    [ -z "$worker" ] || kill "$worker" 2>/dev/null || :
    rm -rf "$venv/lock"
    trap - EXIT HUP INT TERM
}

# Runs a command into the log, where a rival can see its pid and a signal to this script reaches it.
logged() {
    printf '\n$ %s\n' "$*" >>"$log"
    "$@" >>"$log" 2>&1 </dev/null &
    worker=$!
    echo "$worker" >"$venv/lock/worker"
    result=0
    wait "$worker" || result=$?
    worker=
    return "$result"
}

# --- finding a Python --------------------------------------------------------------------------------------------------

# Sets $python to an interpreter that will do; otherwise adds a line to $found that says why not.
try_python() {
    command -v "$1" >/dev/null 2>&1 || return 1
    # Old syntax on purpose: Python 2 must be able to say its version.
    answer=$("$1" -c 'import sys; sys.stdout.write("%d %d %d %s" % (sys.version_info[:3] + (sys.executable,)))' 2>/dev/null) ||
        return 1
    read -r major minor patch executable <<ANSWER
$answer
ANSWER
    case "$major.$minor" in
        3.1[5-9] | 3.[2-9][0-9])
            # Whoever names one knows it; found by chance, it would only fail later.
            if [ "$1" != "${GOSSAMER_PYTHON:-}" ]; then
                found="$found
  $1 is Python $major.$minor.$patch, too new: not all packages have wheels for it"
                return 1
            fi
            ;;
    esac
    case "$major.$minor" in
        [0-2].* | 3.[0-9] | 3.10) found="$found
  $1 is Python $major.$minor.$patch, too old" ;;
        *)
            if "$executable" -I -c 'import ensurepip, venv' >/dev/null 2>&1; then
                python=$executable
                python_version=$major.$minor.$patch
                return 0
            fi
            no_venv=$major.$minor
            found="$found
  $1 is Python $major.$minor.$patch, but cannot make environments: its venv or ensurepip module is missing"
            ;;
    esac
    return 1
}

how_to_install() {
    sudo='sudo '
    [ "$(id -u)" -ne 0 ] || sudo=
    if command -v apt-get >/dev/null 2>&1; then
        if [ -n "$no_venv" ]; then echo "${sudo}apt-get install python$no_venv-venv"; else echo "${sudo}apt-get install python3 python3-venv"; fi
    elif command -v dnf >/dev/null 2>&1; then
        echo "${sudo}dnf install python3.12"
    elif command -v apk >/dev/null 2>&1; then
        echo "${sudo}apk add python3"
    elif command -v pacman >/dev/null 2>&1; then
        echo "${sudo}pacman -S python"
    elif command -v brew >/dev/null 2>&1; then
        echo "brew install python@3.13"
    else
        echo "(with the system's package manager: python3 and, where it is separate, python3-venv)"
    fi
}

no_python() {
    say "needs Python 3.11 or newer, up to 3.14, with its venv module. Found:${found:-
  no python3 on the PATH}"
    printf 'Install it:\n  %s\n' "$(how_to_install)" >&2
    # shellcheck disable=SC2016  # the text is to be typed, not expanded
    printf 'or name another interpreter:\n  GOSSAMER_PYTHON=/path/to/python3.12 %s\n' "$here/$name" >&2
    exit 1
}

find_python() {
    found=
    no_venv=
    if [ -n "${GOSSAMER_PYTHON:-}" ]; then
        # Asked for by name: another one in its place would be a surprise.
        try_python "$GOSSAMER_PYTHON" && return
        found=${found:-"
  GOSSAMER_PYTHON=$GOSSAMER_PYTHON does not run"}
        no_python
    fi
    for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
        try_python "$candidate" && return
    done
    no_python
}

# --- making it fit -----------------------------------------------------------------------------------------------------

new_environment() {
    find_python
    say "making $venv with Python $python_version"
    for entry in "$venv"/* "$venv"/.[!.]*; do
        case $entry in
            "$venv/lock" | "$venv/lock.stale") ;;
            *) rm -rf "$entry" ;;
        esac
    done
    : >"$log"
    mkdir -p "$venv/setup"
    logged "$python" -I -m venv "$venv" && [ -x "$venv/bin/python" ] || {
        no_venv=${python_version%.*}
        found="
  $python is Python $python_version, but could not make an environment; its words are in $log"
        no_python
    }
}

run_pip() {
    # What a person has set for other installations (--user, --target) must not lead this one elsewhere. -P: nor must a
    # file pip.py in the directory that the script is called in be run instead.
    logged env PIP_USER=0 PIP_TARGET= PIP_PREFIX= "$venv/bin/python" -P -m pip --quiet --disable-pip-version-check \
        --no-input "$@"
}

names_in() {
    sed -n 's/^\([A-Za-z0-9][A-Za-z0-9._-]*\)==.*/\1/p' "$1"
}

# What an earlier lock brought and this one no longer names would hide a missing dependency.
remove_dropped() {
    [ -r "$venv/setup/$kind.lock" ] || return 0
    for package in $(names_in "$venv/setup/$kind.lock"); do
        grep -q "^$package==" "$here/requirements/$kind.lock" || run_pip uninstall --yes "$package" || return 1
    done
}

install_locked() {
    run_pip install --require-hashes --no-deps --only-binary :all: -r "$here/requirements/$1.lock"
}

install_packages() {
    say "installing the packages of requirements/$kind.lock"
    # Wheels alone: a source distribution runs what it likes while it is being built, and needs a compiler for it. A pip
    # that is current comes first; the one of an old Python has the faults of its year.
    if ! { remove_dropped && install_locked pip && install_locked "$kind"; }; then
        say "the packages could not be installed. The end of $log:"
        tail -n 5 "$log" >&2
        if grep -q -E 'NewConnectionError|NameResolutionError|ConnectTimeout|ReadTimeout|ProxyError|from versions: none' "$log"; then
            say "the package index could not be reached, or has no wheel for this Python and system: is there a network"
            say "(or a proxy to be named in HTTPS_PROXY)? Wheels exist for Python 3.11 to 3.14 on Linux with glibc, and on"
            say "macOS with Apple's processors"
        fi
        fail "run the same command again when that is mended; the whole story is in $log"
    fi
    [ "$kind" != bench ] || return 0
    run_pip install --no-deps --no-build-isolation --editable "$here" || {
        tail -n 5 "$log" >&2
        fail "the package itself could not be installed; the whole story is in $log"
    }
}

prepare() {
    name=$1
    kind=$2
    ! same_place || ! same_packages || return 0

    take_lock
    # Whoever held the lock may have done the work.
    if ! same_place || ! same_packages; then
        if same_place; then
            # From here on an interruption means: make it anew.
            rm -f "$venv/setup/place"
        else
            rm -f "$venv/setup/place"
            new_environment
            asked=asked:${GOSSAMER_PYTHON:-}
        fi
        install_packages
        # The check lock holds all of the run lock; but a new run lock says nothing of the check packages.
        rm -f "$venv/setup/check.lock"
        for file in requirements/pip.lock requirements/run.lock "requirements/$kind.lock" pyproject.toml; do
            cp "$here/$file" "$venv/setup/"
        done
        base=$("$venv/bin/python" -I -c 'import os, sys; print(os.path.realpath(sys.executable))')
        printf '%s\n%s\n%s\n' "$here" "$base" "$asked" >"$venv/setup/place.new"
        mv "$venv/setup/place.new" "$venv/setup/place"
        say "ready"
    fi
    give_lock_back
}
