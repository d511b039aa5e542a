# SPDX-License-Identifier: Apache-2.0
# Packages of others from PyPI, each at one version: for `run`, which reads this file. It sets the
# folders that they are fetched into, once.

# The driver's headers, and for the benchmarks CUB's and what those include.
install_wheels() {
  [ "$cuda" = "$wheels" ] || return 0
  fetch_wheels "$wheels" 'the headers of CUDA' nvidia-cuda-runtime==13.0.96 \
    nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl==13.0.85
  [ -d "$wheels" ]
}

# fetch_wheels FOLDER NAMES REQUIREMENT...: fills the folder, or reports the missing NAMES.
fetch_wheels() {
  wanted=$1 names=$2 && shift 2
  [ ! -d "$wanted" ] || return 0
  rm -rf "$wanted.part"
  if "${how:-pip_quietly}" install --no-compile --root-user-action=ignore \
    --target "$wanted.part" "$@"; then
    mv "$wanted.part" "$wanted"
  else
    echo "run: $names cannot be downloaded: what needs it is left out" >&2
  fi
}

# Third-party programs, which the tests run on the simulated driver.
fetch_outside_wheels() {
  fetch_wheels "$outside_wheels" 'cuda-bindings, nvidia-ml-py and pytest' cuda-bindings==13.0.3 \
    nvidia-ml-py==13.580.82 pytest==9.2.0 pluggy==1.7.0 iniconfig==2.3.1 packaging==26.4 \
    pygments==2.21.0
}

# Packages for which the Python module has adapters.
fetch_python_wheels() {
  fetch_wheels "$python_wheels" 'packages for Python' numpy==2.4.6 numba==0.68.1 \
    llvmlite==0.50.0 numba-cuda==0.30.4 cuda-bindings==13.0.3 cuda-core==1.2.2 \
    cuda-pathfinder==1.9.0 packaging==26.4 torch-memory-saver==0.0.10
}

# Third-party PJRT plug-ins: 63 MB, and with BERTH_TEST_TPU=1 libtpu, 137 MB more. Without them
# their tests are skipped.
fetch_pjrt_wheels() {
  fetch_pjrt_wheel xla_plugins xla-cpu-pjrt==0.0.1
  [ "${BERTH_TEST_TPU-}" != 1 ] || fetch_pjrt_wheel libtpu libtpu==0.0.52
}

# fetch_pjrt_wheel FOLDER REQUIREMENT
fetch_pjrt_wheel() {
  [ ! -d "$pjrt_wheels/$1" ] || return 0
  pip_quietly install --no-compile --root-user-action=ignore --target "$pjrt_wheels" "$2" ||
    echo "run: $2 cannot be downloaded: its tests are skipped" >&2
}

# nvcc for the test of .cu files.
fetch_nvcc() {
  [ ! -x "$nvcc" ] && ! command -v nvcc >/dev/null || return 0
  fetch_wheels "$nvcc_wheels" nvcc nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 \
    nvidia-cuda-crt==13.0.88 nvidia-cuda-runtime==13.0.96
}

pip_quietly() {
  pip_with_dependencies "$@" --no-deps
}

pip_with_dependencies() {
  python3 -m pip --disable-pip-version-check "$@" --quiet --no-cache-dir --retries 1 --timeout 15
}

fetch_rmm() {
  pip_quietly install --no-compile --root-user-action=ignore --target "$1" \
    librmm-cu13==26.4.0 rapids-logger==0.2.3
}

# Only the parts of the wheel that the allocator needs are kept.
fetch_torch() {
  pip_quietly download --dest "$1" torch==2.13.0 &&
    python3 "$root/bench/peers/modules/unpack.py" "$1"/torch-*.whl "$1" \
      torch/lib/libc10.so torch/lib/libc10_cuda.so torch/include/c10/ \
      torch/include/torch/headeronly/ &&
    rm "$1"/torch-*.whl
}

# Peers of the benchmarks that are third-party libraries: without them these are left out.
fetch_peer_wheels() {
  for peer in rmm torch; do
    if [ -d "$peer_wheels/$peer" ]; then continue; fi
    rm -rf "$peer_wheels/$peer.part"
    mkdir -p "$peer_wheels/$peer.part"
    if "fetch_$peer" "$peer_wheels/$peer.part"; then
      mv "$peer_wheels/$peer.part" "$peer_wheels/$peer"
      rm -f "$build/peers/run-options"  # what is there is looked for when the folder is set up
    else
      rm -rf "$peer_wheels/$peer.part"
      echo "run: the wheels of $peer cannot be had: it is left out" >&2
    fi
  done
}

# Programs of others on the driver and NVML, with their own tests. PyTorch's CUDA build is 500 MB,
# and 2 GB with NVIDIA's libraries.
fetch_client_wheels() {
  fetch_wheels "$client_wheels/commands" 'gpustat and nvitop' gpustat==1.1.1 nvitop==1.7.2 \
    nvidia-ml-py==13.580.82 psutil==7.2.2 blessed==1.52.0 jinxed==2.1.0 wcwidth==0.9.4
  fetch_wheels "$client_wheels/numba" 'numba-cuda' numba-cuda==0.30.4 numba==0.68.1 \
    llvmlite==0.50.0 numpy==2.4.6 cuda-bindings==13.0.3 cuda-core==1.2.2 cuda-pathfinder==1.9.0 \
    packaging==26.4 filecheck==1.0.6 pytest==9.2.0 pluggy==1.7.0 iniconfig==2.3.1 \
    pygments==2.21.0
  how=pip_with_dependencies
  fetch_wheels "$client_wheels/torch" 'PyTorch' torch==2.13.0
  how=
}
