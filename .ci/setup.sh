# shellcheck shell=bash
# Sourced by run, test and .ci/run in the repository's root. Functions that install missing packages, build,
# and count checks.

# The Debian packages needed to build the library, the command and the tests.
# shellcheck disable=SC2034
build_packages=(gcc libc6-dev make cmake libblis-dev libxxhash-dev libjansson-dev libutf8proc-dev
                libcriterion-dev)

say() {
    echo "== $*"
}

# missing PACKAGE...: prints the packages that are not installed.
missing() {
    local package
    for package; do
        dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
            echo "$package"
    done
}

# logged FILE COMMAND...: runs the command and writes its output to FILE. On a terminal, shows the progress of
# a build as a percentage. If the command fails, prints its errors.
logged() {
    local file=$1 line status=0
    shift
    mkdir -p "$(dirname "$file")"
    "$@" 2>&1 | while IFS= read -r line; do
        printf '%s\n' "$line"
        if [ -t 2 ] && [[ $line =~ ^\[\ *([0-9]+\ ?%)\] ]]; then
            printf '\r%4s' "${BASH_REMATCH[1]}" >&2
        fi
    done >"$file" || status=$?
    if [ -t 2 ]; then
        printf '\r    \r' >&2
    fi
    if [ $status != 0 ]; then
        echo "Failed: $*"
        grep -E -A 5 'error|Error|undefined reference' "$file" | head -n 40 || tail -n 20 "$file"
        echo "The full output is in $file."
    fi
    return $status
}

# need PACKAGE...: installs the missing packages without asking questions.
need() {
    local absent as_root=()
    if ! command -v dpkg-query >/dev/null; then
        return 0 # Not Debian: CMake reports what is missing.
    fi
    mapfile -t absent < <(missing "$@")
    if [ ${#absent[@]} = 0 ]; then
        return 0
    fi
    if [ "$(id -u)" != 0 ]; then
        if ! sudo -n true 2>/dev/null; then
            echo "Missing packages: ${absent[*]}. Install them first, which needs root:" >&2
            echo "    sudo apt-get update && sudo apt-get install ${absent[*]}" >&2
            exit 1
        fi
        as_root=(sudo -n)
    fi
    say "Installing ${absent[*]}"
    local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300)
    logged build/apt-update.log "${apt[@]}" update
    logged build/apt-install.log "${apt[@]}" -o Dpkg::Use-Pty=0 install --no-install-recommends -y "${absent[@]}"
}

# build FOLDER TARGET [CMAKE OPTION...]: configures and builds.
build() {
    local folder=$1 target=$2
    shift 2
    say "Building $target in $folder"
    logged "$folder/configure.log" cmake -S . -B "$folder" --log-level=WARNING "$@" &&
        logged "$folder/build.log" cmake --build "$folder" --target "$target" --parallel "$(nproc)"
}

passed=0
failed=0

# check NAME COMMAND...: runs the command and counts it. Shows its output if it fails.
check() {
    local name=$1 log
    shift
    log=$(mktemp)
    # Runs in the background, since `set -e` is ignored in a condition and in all functions called there.
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

# criterion FOLDER [OPTION]...: runs the tests built in FOLDER and counts each. Crashes, timeouts and incomplete
# runs count as failures. The default timeout of a test is ten minutes.
criterion() {
    local program=$1/brasa_tests report=$1/tests.xml status=0 good bad skipped
    shift
    rm -f "$report"
    "$program" -j2 --timeout 600 "--xml=$report" "$@" || status=$?
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

# Prints only the counts, on the last line. Fails if a check failed or none was run.
summary() {
    echo "$passed passed, $failed failed"
    [ $failed = 0 ] && [ $passed != 0 ]
}
