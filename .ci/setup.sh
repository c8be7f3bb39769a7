# shellcheck shell=bash
# Sourced by run, test and .ci/run, from the repository's root: installs what is missing, builds, and
# counts checks.

# What the library, the command and the tests are built with, as Debian packages.
# shellcheck disable=SC2034
build_packages=(gcc libc6-dev make cmake libblis-dev libxxhash-dev libjansson-dev libutf8proc-dev
                libcriterion-dev)

say() {
    echo "== $*"
}

# missing PACKAGE...: those that are not installed.
missing() {
    local package
    for package; do
        dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
            echo "$package"
    done
}

# need PACKAGE...: installs what is missing of them, and asks nothing.
need() {
    local absent as_root=()
    if ! command -v dpkg-query >/dev/null; then
        return 0 # Not Debian: CMake names what is missing.
    fi
    mapfile -t absent < <(missing "$@")
    if [ ${#absent[@]} = 0 ]; then
        return 0
    fi
    if [ "$(id -u)" != 0 ]; then
        if ! sudo -n true 2>/dev/null; then
            echo "Missing: ${absent[*]}. Not root, and sudo does not work unasked; run this first:" >&2
            echo "    sudo apt-get install ${absent[*]}" >&2
            exit 1
        fi
        as_root=(sudo -n)
    fi
    say "Installing ${absent[*]}"
    local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300)
    "${as_root[@]}" "${apt[@]}" update
    "${as_root[@]}" "${apt[@]}" -o Dpkg::Use-Pty=0 install --no-install-recommends -y "${absent[@]}"
}

# build FOLDER TARGET [CMAKE OPTION...]: configures and builds.
build() {
    local folder=$1 target=$2
    shift 2
    say "Building $target in $folder"
    cmake -S . -B "$folder" --log-level=WARNING "$@" &&
        cmake --build "$folder" --target "$target" --parallel "$(nproc)"
}

passed=0
failed=0

# check NAME COMMAND...: runs the command and counts it; what it printed is shown if it fails.
check() {
    local name=$1 log
    shift
    log=$(mktemp)
    # In the background, since `set -e` is ignored in a condition and in all that it calls.
    (set -e; "$@") >"$log" 2>&1 &
    if wait $!; then
        passed=$((passed + 1))
        echo "ok      $name"
    else
        failed=$((failed + 1))
        echo "FAILED  $name"
        sed 's/^/        /' "$log"
    fi
    rm -f "$log"
}

# criterion FOLDER: runs the tests built in FOLDER and counts each; a crash or a timeout is a failure,
# and so is a run that did not come to its end.
criterion() {
    local report=$1/tests.xml status=0 good bad skipped
    rm -f "$report"
    "$1/brasa_tests" -j2 "--xml=$report" || status=$?
    touch "$report"
    good=$(grep -c '^ *<testcase .* status="PASSED"' "$report") || true
    bad=$(grep -cE '^ *<testcase .* status="(FAILED|ERRORED)"' "$report") || true
    skipped=$(grep -c '^ *<testcase .* status="SKIPPED"' "$report") || true
    if ! grep -q '^</testsuites>' "$report" || { [ $status != 0 ] && [ "$bad" = 0 ]; }; then
        echo "FAILED  the test program ended with status $status"
        bad=$((bad + 1))
    fi
    echo "== Tests: $good passed, $bad failed, $skipped skipped"
    passed=$((passed + good))
    failed=$((failed + bad))
}

# Prints the counts, alone on the last line; false if a check failed or there was none.
summary() {
    echo "$passed passed, $failed failed"
    [ $failed = 0 ] && [ $passed != 0 ]
}
