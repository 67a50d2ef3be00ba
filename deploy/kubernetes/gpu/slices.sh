#!/bin/bash
# A Triton server for each MIG device that this container was given, and their kinds and addresses for the invoker beside it.
# One that ends is started again alone: the others have work.
set -u
addresses=${1:-/dev/shm/slices}
mapfile -t devices < <(nvidia-smi -L | grep -o 'MIG-[0-9a-f-]*')
mapfile -t kinds < <(nvidia-smi -L | sed -nE 's/^ *MIG ([0-9a-z.+]+) .*MIG-.*/\1/p' | tr + .)
if [[ ${#devices[@]} -eq 0 ]]; then
    echo 'no MIG device; the container must ask for some, as in nvidia.com/mig-1g.10gb: 7' >&2
    exit 1
fi

declare -A slice_of  # by process
stopping=
trap 'stopping=yes; kill "${!slice_of[@]}"' TERM INT

serve() {
    CUDA_VISIBLE_DEVICES=${devices[$1]} tritonserver \
        --id="slice-$1" \
        --model-repository=/models \
        --model-control-mode=explicit \
        --disable-auto-complete-config \
        --grpc-address=127.0.0.1 \
        --grpc-port=$((8100 + $1)) \
        --http-address=127.0.0.1 \
        --http-port=$((9100 + $1)) \
        --allow-metrics=false \
        --backend-config="python,shm-region-prefix-name=slice-$1-" &
    slice_of[$!]=$1
}

list=
for slice in "${!devices[@]}"; do
    serve "$slice"
    kind=${kinds[$slice]:-}
    list+=",${kind:+$kind@}127.0.0.1:$((8100 + slice))"
done
echo "${list#,}" > "$addresses.new" && mv "$addresses.new" "$addresses"

while ((${#slice_of[@]})); do
    wait -n  # a signal ends it too
    for process in "${!slice_of[@]}"; do
        kill -0 "$process" 2> /dev/null && continue
        slice=${slice_of[$process]}
        unset "slice_of[$process]"
        [[ $stopping ]] && continue
        echo "slice-$slice ended; it is started again" >&2
        sleep 1
        serve "$slice"
    done
done
