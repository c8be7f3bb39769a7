# shellcheck shell=bash
# Sourced by run, test, .ci/run and .ci/full in the repository's root. Functions that install missing packages,
# build, and count checks.

# The Debian packages needed to build the library, the command and the tests.
# shellcheck disable=SC2034
build_packages=(gcc libc6-dev make cmake libblis-dev libxxhash-dev libjansson-dev libutf8proc-dev
                libcriterion-dev)
# Those that the checks of .ci/run need in addition.
# shellcheck disable=SC2034
check_packages=(g++ ccache clang-format-14 codespell pkg-config python3 python3-venv binutils gdb chromium
                chromium-driver libopenmpi-dev openmpi-bin liblapack3 libfftw3-single3 libfftw3-double3)

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
    if [ $list = yes ]; then
        return 0
    fi
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
    say "Installing ${absent[*]} (output: build/apt-install.log)"
    local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300)
    logged build/apt-update.log "${apt[@]}" update
    logged build/apt-install.log "${apt[@]}" -o Dpkg::Use-Pty=0 install --no-install-recommends -y "${absent[@]}"
}

# build FOLDER TARGET [CMAKE OPTION...]: configures and builds.
build() {
    local folder=$1 target=$2
    shift 2
    say "Building $target in $folder (output: $folder/build.log)"
    logged "$folder/configure.log" cmake -S . -B "$folder" --log-level=WARNING "$@" &&
        logged "$folder/build.log" cmake --build "$folder" --target "$target" --parallel "$(nproc)"
}

# Compiles through ccache from now on. Paths are relative to this folder, so that other clones find the results.
use_compiler_cache() {
    export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
    export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=yes
}

passed=0
failed=0
list=no
only='*'

# read_options [--help] [--list] [--only PATTERN]: reads the options of ./test, .ci/run and .ci/full. Help is the comment
# at the beginning of the script.
read_options() {
    while [ $# != 0 ]; do
        case $1 in
        -h | --help)
            sed -n '2,/^set /s/^# \{0,1\}//p' "$0"
            exit 0
            ;;
        --list)
            list=yes
            ;;
        --only)
            if [ $# = 1 ]; then
                echo "--only needs a pattern, such as: --only 'asan: *'" >&2
                exit 2
            fi
            only=$2
            shift
            ;;
        *)
            echo "Unknown option '$1'. Options are --help, --list and --only PATTERN." >&2
            exit 2
            ;;
        esac
        shift
    done
}

# chosen NAME: succeeds if the check is to run. Prints the name instead if the checks are only listed.
chosen() {
    # shellcheck disable=SC2053 # the right side is a pattern
    if [[ $1 != $only ]]; then
        return 1
    elif [ $list = yes ]; then
        echo "$1"
        return 1
    fi
}

# quietly LOG COMMAND...: runs the command with `set -e` and writes its output to the file.
quietly() {
    local log=$1
    shift
    # Runs in the background, since `set -e` is ignored in a condition and in all functions called there.
    (set -e; "$@") >"$log" 2>&1 </dev/null &
    wait $!
}

# check NAME COMMAND...: runs the command and counts it. Prints its seconds, and its output if it fails.
check() {
    local name=$1 log begin=$SECONDS
    shift
    if ! chosen "$name"; then
        return 0
    fi
    log=$(mktemp)
    if quietly "$log" "$@"; then
        passed=$((passed + 1))
        printf 'ok     %4d s  %s\n' $((SECONDS - begin)) "$name"
    else
        failed=$((failed + 1))
        printf 'FAILED %4d s  %s\n' $((SECONDS - begin)) "$name"
        sed 's/^/        /' "$log"
    fi
    rm -f "$log"
}

# side_by_side LIST LIST: runs two functions with checks at the same time, for checks that use one core. The results of
# the second list are printed after those of the first.
side_by_side() {
    local log other counts
    log=$(mktemp)
    (
        trap 'exit 130' INT # the shell ignores it in the background
        passed=0 failed=0
        "$2"
        echo "$passed $failed" >"$log.counts"
    ) >"$log" 2>&1 &
    other=$!
    "$1"
    wait $other || true
    cat "$log"
    read -r -a counts <"$log.counts" || counts=(0 1)
    rm -f "$log" "$log.counts"
    passed=$((passed + counts[0]))
    failed=$((failed + counts[1]))
}

# skip NAME REASON: says that a check was left out, and why.
skip() {
    printf 'skipped        %s: %s\n' "$1" "$2"
}

# skipped_tests SUITE REPORT: says which tests the program left out, and why. REPORT is its report in TAP's form.
skipped_tests() {
    local test
    # Tests that a filter excludes are reported with the words "test was skipped".
    sed -n '/# SKIP test was skipped$/d; s/^ok - \([^ ]*\) *# SKIP /\1: /p' "$2" | while read -r test; do
        skip "$1: ${test%%: *}" "${test#*: }"
    done
}

# suite NAME BUILD [OPTION]...: makes the build, runs its test program and counts each test. Crashes, timeouts and
# incomplete runs count as failures. A test may take ten minutes.
suite() {
    local name=$1 build=$2 program report log status=0 good bad begin=$SECONDS
    shift 2
    if ! chosen "$name"; then
        return 0
    fi
    program=$(folder "$build")/brasa_tests
    report=$(folder "$build")/tests.xml
    log=$(mktemp)
    rm -f "$report" "$report.tap"
    if quietly "$log" built "$build"; then
        quietly "$log" "$program" -j4 --timeout 600 "--xml=$report" "--tap=$report.tap" "$@" || status=$?
    fi
    touch "$report" "$report.tap"
    good=$(grep -c '^ *<testcase .* status="PASSED"' "$report") || true
    bad=$(grep -cE '^ *<testcase .* status="(FAILED|ERRORED)"' "$report") || true
    if ! grep -q '^</testsuites>' "$report" || { [ $status != 0 ] && [ "$bad" = 0 ]; }; then
        echo "The test program ended with status $status." >>"$log"
        bad=$((bad + 1))
    fi
    if [ "$bad" = 0 ]; then
        printf 'ok     %4d s  %s: %d tests\n' $((SECONDS - begin)) "$name" "$good"
        skipped_tests "$name" "$report.tap"
    else
        printf 'FAILED %4d s  %s: %d of %d tests\n' $((SECONDS - begin)) "$name" "$bad" $((good + bad))
        grep -v '^\[\(SKIP\|====\)\]' "$log" | sed 's/^/        /'
    fi
    rm -f "$log"
    passed=$((passed + good))
    failed=$((failed + bad))
}

# Prints only the counts, on the last line. Fails if a check failed or none was run.
summary() {
    if [ $list = yes ]; then
        exit 0
    fi
    echo "$passed passed, $failed failed"
    [ $failed = 0 ] && [ $passed != 0 ]
}
