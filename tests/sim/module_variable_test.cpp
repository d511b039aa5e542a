// SPDX-License-Identifier: Apache-2.0
// Variables of modules and libraries of PTX.
#include <cstring>
#include <string>
#include <vector>

#include "sim/sim_fixture.hpp"
#include "sim/work/ptx_variables.hpp"

namespace module_variable_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr const char* kPtx = R"(.version 8.0
.target sm_80
.address_size 64
.extern .global .align 4 .u32 elsewhere;
.visible .global .align 4 .u32 counter = 7;
.const .align 8 .f32 weights[2] = {0f3F800000, 0fC0000000};
.global .align 1 .b8 bytes[5] = {1, 0x2, -1};
.global .attribute(.managed) .align 8 .u64 shared_flag;
.global .v2 .f64 pair;
.global .u64 pointer = counter;
// .global .u32 comment;
.visible .entry fill(.param .u64 .ptr .global .align 4 to)
{
  .reg .b32 %r<2>;
  ld.global.u32 %r1, [counter];
  ret;
}
)";

struct VariableFixture : SimFixture {
  VariableFixture() : SimFixture("memory=64MiB,devices=2,poison=on") {
    OK(CU(cuModuleLoadData)(&module, kPtx));
    OK(CU(cuLibraryLoadData)(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  }

  /// The memory of a variable of the module.
  CUdeviceptr address(const char* name) {
    CUdeviceptr found = 0;
    OK(CU(cuModuleGetGlobal)(&found, nullptr, module, name));
    return found;
  }
  std::vector<unsigned char> content(const char* name) {
    CUdeviceptr found = 0;
    std::size_t bytes = 0;
    OK(CU(cuModuleGetGlobal)(&found, &bytes, module, name));
    return sim.peek(found, bytes);
  }

  CUmodule module = nullptr;
  CUlibrary library = nullptr;
};

std::vector<std::string> names_in(const char* ptx) {
  std::vector<std::string> names;
  for (const sim::ImageVariable& variable : sim::read_variables(ptx))
    names.push_back(variable.name);
  return names;
}

}  // namespace

TEST_CASE_FIXTURE(VariableFixture, "a variable has its size and its initial value") {
  using Bytes = std::vector<unsigned char>;
  CHECK(content("counter") == Bytes{7, 0, 0, 0});
  CHECK(content("weights") == Bytes{0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0});
  CHECK(content("bytes") == Bytes{1, 2, 0xff, 0, 0});
  CHECK(content("pair") == Bytes(16, 0));
  CHECK(content("pointer") == Bytes(8, 0));
  CHECK(content("shared_flag") == Bytes(8, 0));
}

TEST_CASE_FIXTURE(VariableFixture, "a name that is no variable of the module is not found") {
  CUdeviceptr found = 0;
  for (const char* name : {"elsewhere", "comment", "fill", "to", "count"}) {
    CAPTURE(std::string(name));
    CHECK(CU(cuModuleGetGlobal)(&found, nullptr, module, name) == CUDA_ERROR_NOT_FOUND);
    CHECK(CU(cuLibraryGetGlobal)(&found, nullptr, library, name) == CUDA_ERROR_NOT_FOUND);
  }
  std::size_t bytes = 0;
  CHECK(CU(cuModuleGetGlobal)(nullptr, &bytes, module, "weights") == CUDA_SUCCESS);
  CHECK(bytes == 8);
  CHECK(CU(cuModuleGetGlobal)(nullptr, nullptr, module, "weights") == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuModuleGetGlobal)(&found, nullptr, module, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuModuleGetGlobal)(&found, nullptr, nullptr, "weights") == CUDA_ERROR_INVALID_HANDLE);
  CHECK(CU(cuLibraryGetGlobal)(&found, nullptr, reinterpret_cast<CUlibrary>(module), "weights") ==
        CUDA_ERROR_INVALID_HANDLE);
  CUmodule binary = nullptr;
  OK(CU(cuModuleLoadFatBinary)(&binary, "\x50\xed\x55\xba"));
  CHECK(CU(cuModuleGetGlobal)(&found, nullptr, binary, "any") == CUDA_ERROR_NOT_SUPPORTED);
}

TEST_CASE_FIXTURE(VariableFixture, "a variable is the same memory until its module is unloaded") {
  const CUdeviceptr counter = address("counter");
  const cuuint32_t value = 9;
  OK(CU(cuMemcpyHtoD)(counter, &value, sizeof value));
  CHECK(address("counter") == counter);
  CHECK(content("counter")[0] == 9);
  CHECK(CU(cuMemFree)(counter) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuModuleUnload)(module));
  CHECK(CU(cuMemcpyHtoD)(counter, &value, sizeof value) == CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr left = 0;
  OK(CU(cuLibraryGetGlobal)(&left, nullptr, library, "counter"));
  OK(CU(cuDevicePrimaryCtxRelease)(0));
  CHECK(sim.take_findings().empty());
}

TEST_CASE_FIXTURE(VariableFixture,
                  "a library has a variable for each context, and one if managed") {
  const auto in_library = [&](const char* name, bool is_managed) {
    CUdeviceptr found = 0;
    std::size_t bytes = 0;
    OK(is_managed ? CU(cuLibraryGetManaged)(&found, &bytes, library, name)
                  : CU(cuLibraryGetGlobal)(&found, &bytes, library, name));
    CHECK(bytes == (is_managed ? 8 : 4));
    return found;
  };
  const CUdeviceptr counter = in_library("counter", false);
  const CUdeviceptr flag = in_library("shared_flag", true);
  CHECK(counter != address("counter"));
  cuuint64_t on_host = 1;
  std::memcpy(&on_host, reinterpret_cast<const void*>(flag), sizeof on_host);
  CHECK(on_host == 0);
  CUdeviceptr none = 0;
  CHECK(CU(cuLibraryGetGlobal)(&none, nullptr, library, "shared_flag") == CUDA_ERROR_NOT_FOUND);
  CHECK(CU(cuLibraryGetManaged)(&none, nullptr, library, "counter") == CUDA_ERROR_NOT_FOUND);
  OK(CU(cuCtxSetCurrent)(retain(1)));
  CHECK(in_library("counter", false) != counter);
  CHECK(in_library("shared_flag", true) == flag);
  OK(CU(cuDevicePrimaryCtxRelease)(1));
  OK(CU(cuCtxSetCurrent)(context));
  OK(CU(cuDevicePrimaryCtxReset)(0));
  OK(CU(cuCtxSetCurrent)(retain(0)));
  CHECK(in_library("counter", false) != 0);
  CHECK(in_library("shared_flag", true) != 0);
  OK(CU(cuLibraryUnload)(library));
}

TEST_CASE("declarations of variables are read as PTX has them, whatever their end") {
  using Names = std::vector<std::string>;
  CHECK(names_in(".version 8.0 .global .u32 a, b[2];.const[2] .f32 c;") == Names{"a", "b", "c"});
  CHECK(names_in(
            ".version 8.0 .global .texref t; .global .b8 open[] = {1, 2}; .weak .global .s8 w;") ==
        Names{"open", "w"});
  CHECK(
      names_in(".version 8.0 .global .u32 a[4][0]; .global .u64 huge[9999999999999999];").empty());
  for (const char* broken :
       {".version 8.0 .global", ".version 8.0 .global .u32 a[", ".version 8.0 .global .u32 a = {",
        ".version 8.0 .global .attribute(", ".version 8.0 .global .align", ".version 8.0 .const["})
    CHECK(names_in(broken).size() <= 1);
}

}  // namespace module_variable_test
