#!/usr/bin/env bash
# What has to be looked at on a machine with a GPU. Builds with CUDA, of a machine where nothing can be installed with
# what scripts/carry_libraries.sh packed; prints one JSON line a measurement and, at the end, a table of what was
# measured, what it should be, and whether it is.
#   scripts/gpu_check.sh [--only PART,…] [--cell] [--build-only] [--carried-programs] [--carried DIR] [--out DIR]
#   [--quick]
#                        [--demanded] [--part-seconds N] [--data CIFAR10_DIR] [--iterations N] [--learning-rate LR]
#                        [--model M,…] [--batch N,…] [--precision P,…] [--refresh-clocks N,…] [--profile]
#     PART  gradients   each layer's and both networks', held to the reference back end on inputs drawn afresh
#           sanitizer   compute-sanitizer on test cases that together run every kernel that a step launches
#           loss        50 steps of training beside the CPU's
#           step        a step beside PyTorch's, a command for each model, precision and batch; --profile: and PyTorch's
#                       kernels, into DIR/pytorch_kernels.txt
#           torch       loops of PyTorch's own on the GPU, through paceline.torch, beside plain ones; skipped where
#                       there is no PyTorch
#           threads     1, 2 and 4 threads on one GPU, and one through the server beside the loop without it
#           cell        one cell of the DTSSP experiment, 16 workers, 100,000 iterations (--iterations), at
#                           --learning-rate (default 1e-5; gpu_cell.py says why); 8 minutes are its limit
#     --cell              the cell, too, which is not in what is run when no part is named
#     --carried-programs  what carry_libraries.sh --programs packed, instead of a build
#     --carried DIR       where that is (default carried)
#     --out DIR           where lines.jsonl and logs go (default build/gpu_check); begun again, what its lines have is
#                         kept
#     --quick             fewer rounds
#     --demanded          of the step only what has a target
#     --part-seconds N    ends a command of a part that takes longer
#     --model, --batch    of the step (default cifar_cnn, resnet50, cifar_cnn_small, resnet20; 128 and 1024, of resnet50
#                         128)
#     --precision P,…     of the step (default all four, of resnet50 bf16), of the threads and the cell (default tf32)
#     --refresh-clocks N,…  of the step through the server (default 1 and null)
# Ctrl-C or SIGTERM once, or SIGHUP: what is under way is stopped. Twice: it is ended at once.
# Exit status: 0 all is well; 1 something in the table is not, measured now or before, or could not be measured; 2 wrong
# usage; 77 there is no GPU that can be used, and why is said.
# shellcheck disable=SC2317 # the parts are called by name
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib/arguments.sh
. scripts/lib/processes.sh
. scripts/lib/gpu_machine.sh
. scripts/lib/gpu_programs.sh

only='' cell='' build_only='' carried_programs='' carried=carried out=build/gpu_check quick='' part_seconds=0 data=''
iterations=100000 learning_rate=0.00001 profile='' demanded=''
model=cifar_cnn,resnet50,cifar_cnn_small,resnet20 batch='' precision='' refresh_clocks=1,null # lists
read_arguments "--only parts" --cell --build-only --carried-programs "--carried folder" "--out folder" --quick --demanded \
  "--part-seconds number" "--data folder" "--iterations number" "--learning-rate rate" "--model names" "--batch numbers" \
  "--precision names" "--refresh-clocks numbers" --profile -- "$@"
[ -n "$only" ] || only=gradients,sanitizer,loss,torch,step,threads${cell:+,cell}
known() { # WHAT LIST NAME…: each of the list is one of the names
  local one
  for one in ${2//,/ }; do [[ " ${*:3} " == *" $one "* ]] || fail "no $1 '$one' (see --help)"; done
}
known part "$only" gradients sanitizer loss torch step threads cell
known model "$model" cifar_cnn cifar_cnn_small resnet20 resnet50
known precision "$precision" fp32 tf32 bf16 fp16
[[ "${batch:-1}" =~ ^[1-9][0-9]*(,[1-9][0-9]*)*$ ]] || fail "--batch needs numbers, got '$batch'"
[[ "$refresh_clocks" =~ ^(null|[1-9][0-9]*)(,(null|[1-9][0-9]*))*$ ]] ||
  fail "--refresh-clocks needs numbers or null, got '$refresh_clocks'"
mkdir -p "$out" || fail "cannot create $out" 1
lines=$out/lines.jsonl build=build/gpu failed=0
touch "$lines"
on_signals end_whole

find_libraries "$carried"
if [ -n "$carried_programs" ]; then
  mkdir -p "$build"
  tar -C "$build" -xzf "$carried/programs.tar.gz" || fail "no programs in $carried: carry_libraries.sh --programs" 1
else
  began=$SECONDS
  run_whole cmake --preset release -B "$build" -DPACELINE_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=native "${gpu_options[@]}" >&2 ||
    exit 1
  run_whole cmake --build "$build" --target "${gpu_targets[@]}" >&2 || exit 1
  echo "== built in $((SECONDS - began)) s" >&2
fi
[ -z "$build_only" ] || exit 0
bin=$PWD/$build/bin
programs=$(cat "$bin"/* "$build"/tests/gpu_test tests/bench/*.py | sha256sum | cut -c 1-16)
no_gpu=0
"$build/tests/gpu_test" --help >/dev/null || no_gpu=$? # it looks for one first
[ "$no_gpu" != 77 ] || exit 77
limited=()
[ "$part_seconds" = 0 ] || limited=(timeout --foreground -k 10 "$part_seconds")

# measure COMMAND…: its lines (tests/bench/once.py). Whatever goes wrong, the next one is tried.
measure() {
  local began=$SECONDS status=0
  run_whole tests/bench/once.py "$lines" "$programs" -- "${limited[@]}" "$@" || status=$?
  echo "== $((SECONDS - began)) s, status $status: $*" >&2
  [ "$status" = 0 ] || failed=1
}
# checked BENCHMARK WHAT LOG COMMAND…: one that passes or does not, each time that it is asked for.
checked() {
  local benchmark=$1 what=$2 log=$3 status=0 began=$SECONDS
  shift 3
  run_whole "${limited[@]}" "$@" >"$log" 2>&1 || status=$?
  tail -n 12 "$log" >&2
  print_checked "$benchmark" "$what" "$status" "$((SECONDS - began))"
}
print_checked() { # BENCHMARK WHAT STATUS SECONDS
  echo "{\"benchmark\": \"$1\", \"what\": \"$2\", \"status\": $3, \"seconds\": $4, \"programs\": \"$programs\"}" |
    tee -a "$lines"
}

gradients() { # the seed of a failure is in what Catch2 prints
  checked gradients "gradients against the reference" "$out/gpu_test.log" "$build/tests/gpu_test" --rng-seed time
}

# Without the two CIFAR networks: minutes longer, and their kernels are those of the small network of
# the_loss_of_training*, which has their layers. Of a library's kernels memcheck alone looks at what they do; racecheck
# and synccheck are slow where libraries try their algorithms, and have fewer cases.
# initcheck learns what was written from the copies and from the kernels that it instruments, so it can leave out no
# kernel that writes what ours read; and whether it sees all ways in which a library's kernels write is not known. So it
# has the cases of a thread cache, in which all kernels are ours, and no filter. That a step's own kernels read nothing
# that was not written is what the fake GPU holds them to: its memory is NaN until then.
sanitizer() {
  local tool sanitizer ours=() cases few cache
  cache='own_gradients_on_a_gpu*,steps_with_a_state_on_a_gpu*'
  cases='cuda_agrees_with_the_reference_on_each*,cuda_with_tensor_cores*,each_graph_in_16_bits*,cuda_draws_the_masks*'
  cases+=',a_nan_comes_out*'
  few='a_smaller_mini_batch*,parts_of_a_group_with_cuda*,a_mini_batch_of_the_set_on*,own_gradients_on_a_gpu*,a_step_that_overflows_float16*'
  cases+=",$few,the_loss_of_training_with_cuda*,steps_with_a_state_on_a_gpu*,a_predicted_mini_batch*"
  if ! sanitizer=$(command -v compute-sanitizer || command -v /usr/local/cuda/bin/compute-sanitizer); then
    echo "== no compute-sanitizer: memory on the GPU is not watched" >&2
    for tool in memcheck initcheck racecheck synccheck; do print_checked sanitizer "$tool" 127 0; done
    return
  fi
  # Hazards and barriers are within one launch: another kernel is not needed to see them in ours.
  if [[ $("$sanitizer" --help) == *--kernel-name* ]]; then ours=(--kernel-name kns=paceline); fi
  watched() { # TOOL CASES [OPTION…]
    checked sanitizer "$1" "$out/$1.log" "$sanitizer" --tool "$1" "${@:3}" --error-exitcode 9 \
      "$build/tests/gpu_test" "$2"
  }
  watched memcheck "$cases"
  watched initcheck "$cache"
  for tool in racecheck synccheck; do watched "$tool" "$few" "${ours[@]}"; done
}

torch() {
  checked torch "paceline.torch on the GPU" "$out/torch.log" python3 tests/process/daemons/torch_test.py "$bin" . \
    TorchLoop.test_models_on_a_gpu_are_plain_pytorch_there
}

loss() { measure tests/bench/loss_beside_cpu.py --bin "$bin"; }

# What is demanded comes first, and each of these is kept when it is over: all of them take longer than a machine may be
# had.
step() {
  local m p b one asked batches how=(--bin "$bin" ${quick:+--rounds 5} --server $((${quick:+-4} + 7)))
  for one in ${refresh_clocks//,/ }; do how+=(--refresh-clocks "$one"); done
  local all=fp32,tf32,bf16,fp16
  if [ -n "$demanded" ]; then how+=(--demanded) all=fp32,tf32; fi
  if [ -n "$profile" ]; then how+=(--profile "$out/pytorch_kernels.txt"); fi
  for m in ${model//,/ }; do
    asked=$all batches=${batch:-128,1024}
    case $m in
      resnet50) asked=bf16 batches=${batch:-128} ;;
      resnet20) [ -z "$demanded" ] || continue ;;
    esac
    for p in $(precisions "$asked"); do
      for b in ${batches//,/ }; do
        measure tests/bench/gpu_step_vs_pytorch.py "${how[@]}" --model "$m" --precision "$p" --batch "$b"
      done
    done
  done
}
precisions() { tr , '\n' <<<"${precision:-$1}"; } # DEFAULT

threads() {
  local p
  for p in $(precisions tf32); do
    measure tests/bench/gpu_threads.py --bin "$bin" --precision "$p" ${quick:+--rounds 1 --steps 300}
    measure tests/bench/through_server.py --bin "$bin" --device "$p" --policy ssp --refresh-clocks 1 --steps 500 \
      --rounds $((${quick:+-4} + 7))
  done
}

cell() {
  local p
  for p in $(precisions tf32); do
    measure tests/bench/gpu_cell.py --bin "$bin" --precision "$p" --iterations "$iterations" \
      --learning-rate "$learning_rate" ${data:+--data "$data"}
  done
}

for part in ${only//,/ }; do
  echo "== $part" >&2
  "$part"
done
python3 scripts/lib/gpu_table.py "$lines" "$programs" || failed=1
exit "$failed"
