#!/bin/sh
# Sees to it that the tests find a Redis and a PostgreSQL: `scripts/servers.sh CHECKOUT`. Does nothing when there are
# some (wheels or system); on Debian and Ubuntu it downloads what is missing and unpacks it into .venv/servers. Packages are
# never installed: no service is started, no user is made, no root is needed.
set -eu

here=$1
venv=$here/.venv
place=$venv/servers

say() {
    printf 'servers: %s\n' "$*" >&2
}

fetch() {
    package=$1
    command -v apt-get >/dev/null 2>&1 && command -v dpkg >/dev/null 2>&1 || return 1
    say "downloading $package and what it needs into $place"
    mkdir -p "$place/archives/partial"
    # apt checks signatures as always; only its place for the files is ours. Without lists (a slim container) root can get them.
    download "$package" || { [ "$(id -u)" -eq 0 ] && apt-get -qq update >>"$place/apt.log" 2>&1 && download "$package"; } || {
        say "apt-get could not; its words are in $place/apt.log"
        return 1
    }
    for archive in "$place"/archives/*.deb; do
        dpkg -x "$archive" "$place" && rm -f "$archive"
    done
}

download() {
    apt-get -qq -y -o "Dir::Cache::archives=$place/archives" -o Debug::NoLocking=1 \
        install --download-only --no-install-recommends "$1" >>"$place/apt.log" 2>&1
}

missing() {
    ! "$venv/bin/python" -m gossamer.testing.servers "$1" >/dev/null 2>&1
}

for kind in redis postgresql; do
    ! missing "$kind" && continue
    case $kind in
        redis) package=redis-server ;;
        *) package=postgresql ;;
    esac
    if fetch "$package" && ! missing "$kind"; then continue; fi
    sudo='sudo '
    [ "$(id -u)" -ne 0 ] || sudo=
    if command -v apt-get >/dev/null 2>&1; then
        advice="${sudo}apt-get install $package"
    elif command -v dnf >/dev/null 2>&1; then
        advice="${sudo}dnf install $([ "$kind" = redis ] && echo valkey || echo postgresql-server)"
    elif command -v apk >/dev/null 2>&1; then
        advice="${sudo}apk add $([ "$kind" = redis ] && echo redis || echo postgresql)"
    elif command -v pacman >/dev/null 2>&1; then
        advice="${sudo}pacman -S $([ "$kind" = redis ] && echo valkey || echo postgresql)"
    elif command -v brew >/dev/null 2>&1; then
        advice="brew install $kind"
    else
        advice="with the system's package manager"
    fi
    say "no $kind server was found; install one: $advice"
done

# The stores promise Redis 7.0 and PostgreSQL 15, and wheels carry newer ones: Debian's are tested beside them, once they
# could be had.
has() {
    "$venv/bin/python" -m gossamer.testing.servers 2>/dev/null | grep -q "^$1"
}

if command -v apt-get >/dev/null 2>&1 && [ ! -e "$place/tried" ]; then
    mkdir -p "$place"
    : >"$place/tried"
    has 'Redis ' || fetch redis-server || :
    has 'PostgreSQL 15' || fetch postgresql || :
fi
