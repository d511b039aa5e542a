// SPDX-License-Identifier: Apache-2.0
// Variables of cubins and fat binaries.
#include "sim/work/cubin.hpp"

#include <cstddef>
#include <cstring>
#include <elf.h>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "sim/sim_fixture.hpp"
#include "support/cubin.hpp"
#include "support/temporary_folder.hpp"

namespace cubin_test {

using namespace berth;
using namespace berth::test;

namespace {

using Content = std::vector<unsigned char>;

struct CubinFixture : SimFixture {
  CubinFixture() : SimFixture("memory=64MiB,poison=on") {}

  CUmodule load(const void* image) {
    CUmodule module = nullptr;
    OK(CU(cuModuleLoadData)(&module, image));
    return module;
  }
  Content content(CUmodule module, const char* name) {
    CUdeviceptr found = 0;
    std::size_t bytes = 0;
    OK(CU(cuModuleGetGlobal)(&found, &bytes, module, name));
    return sim.peek(found, bytes);
  }
  CUresult find(CUmodule module, const char* name) {
    CUdeviceptr found = 0;
    return CU(cuModuleGetGlobal)(&found, nullptr, module, name);
  }
};

auto read(const std::string& image) {
  return sim::read_cubin(std::as_bytes(std::span(image)));
}

template <class T>
void poke(std::string& image, std::size_t at, T value) {
  std::memcpy(image.data() + at, &value, sizeof value);
}

}  // namespace

TEST_CASE_FIXTURE(CubinFixture, "a variable of a cubin has its size and its initial value") {
  const CubinImage cubin;
  const std::string fat = fat_binary_of(cubin.bytes);
  const struct {
    unsigned magic = 0x466243b1;
    unsigned version = 1;
    const void* fat_binary = nullptr;
    const void* unused = nullptr;
  } wrapper{.fat_binary = fat.data()};
  const TemporaryFolder folder;
  const std::string path = folder.path() / "variables.cubin";
  std::ofstream(path, std::ios::binary) << cubin.bytes;
  CUmodule from_file = nullptr;
  OK(CU(cuModuleLoad)(&from_file, path.c_str()));
  for (CUmodule const module :
       {load(cubin.bytes.data()), load(fat.data()), load(&wrapper), from_file}) {
    CHECK(content(module, "counter") == Content{7, 0, 0, 0});
    CHECK(content(module, "table") ==
          Content{0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0, 0, 0, 0, 0, 0, 4, 0x40});
    CHECK(content(module, "pointer") == Content(8, 0));
    CHECK(content(module, "zeros") == Content(100, 0));
    CHECK(content(module, "scale") == Content{0, 0, 0, 0x40});
    for (const char* name : {"parameters", "bump", "count", ".nv.global"})
      CHECK(find(module, name) == CUDA_ERROR_NOT_FOUND);
    CUfunction kernel = nullptr;
    CHECK(CU(cuModuleGetFunction)(&kernel, module, "bump") == CUDA_SUCCESS);
  }
}

TEST_CASE_FIXTURE(CubinFixture, "a library of a cubin has managed variables") {
  const CubinImage cubin;
  CUlibrary library = nullptr;
  OK(CU(cuLibraryLoadData)(&library, cubin.bytes.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUdeviceptr flag = 0;
  std::size_t bytes = 0;
  OK(CU(cuLibraryGetManaged)(&flag, &bytes, library, "flag"));
  CHECK(bytes == 4);
  CHECK(*reinterpret_cast<const unsigned*>(flag) == 0);
  CHECK(CU(cuLibraryGetManaged)(&flag, &bytes, library, "zeros") == CUDA_ERROR_NOT_FOUND);
  CHECK(CU(cuLibraryGetGlobal)(&flag, &bytes, library, "flag") == CUDA_ERROR_NOT_FOUND);
  CHECK(CU(cuLibraryGetGlobal)(&flag, &bytes, library, "zeros") == CUDA_SUCCESS);
  OK(CU(cuLibraryUnload)(library));
}

TEST_CASE_FIXTURE(CubinFixture, "nothing is known of an image that cannot be read") {
  const std::string compressed = fat_binary_of(CubinImage().bytes, 100);
  std::string other = CubinImage().bytes;
  poke(other, offsetof(Elf64_Ehdr, e_machine), Elf64_Half{EM_X86_64});
  for (CUmodule const module : {load(compressed.data()), load(other.data()),
                                load("\x7f"
                                     "ELF"),
                                load("\xb1\x43\x62\x46")}) {
    CHECK(find(module, "counter") == CUDA_ERROR_NOT_SUPPORTED);
    CUfunction kernel = nullptr;
    CHECK(CU(cuModuleGetFunction)(&kernel, module, "any") == CUDA_SUCCESS);
  }
}

TEST_CASE("a cubin that is cut off anywhere, or refers to what is not in it, is refused") {
  const CubinImage cubin;
  REQUIRE(read(cubin.bytes));
  for (std::size_t bytes = 0; bytes < cubin.bytes.size(); ++bytes)
    CHECK_FALSE(read(cubin.bytes.substr(0, bytes)));
  const std::string fat = fat_binary_of(cubin.bytes);
  for (std::size_t bytes = 0; bytes < fat.size(); ++bytes)
    CHECK_FALSE(sim::read_fat_binary(std::as_bytes(std::span(fat).first(bytes))));
  const auto refused = [&](std::size_t at, auto value) {
    std::string image = cubin.bytes;
    poke(image, at, value);
    return !read(image);
  };
  const auto of_section = [&](std::size_t index, std::size_t field) {
    return cubin.sections_at + index * sizeof(Elf64_Shdr) + field;
  };
  const std::size_t counter = cubin.symbols_at + sizeof(Elf64_Sym);
  CHECK(refused(offsetof(Elf64_Ehdr, e_shstrndx), Elf64_Half{9}));
  CHECK(refused(offsetof(Elf64_Ehdr, e_shnum), Elf64_Half{10}));
  CHECK(refused(of_section(2, offsetof(Elf64_Shdr, sh_link)), Elf64_Word{9}));
  CHECK(refused(of_section(8, offsetof(Elf64_Shdr, sh_info)), Elf64_Word{9}));
  CHECK(refused(of_section(3, offsetof(Elf64_Shdr, sh_offset)), ~Elf64_Off{0}));
  CHECK(refused(of_section(4, offsetof(Elf64_Shdr, sh_size)), Elf64_Xword{1} << 45));
  CHECK(refused(counter + offsetof(Elf64_Sym, st_value), Elf64_Addr{25}));
  CHECK(refused(counter + offsetof(Elf64_Sym, st_value), ~Elf64_Addr{0}));
  CHECK(refused(counter + offsetof(Elf64_Sym, st_name), Elf64_Word{1} << 20));
}

TEST_CASE("variables of a cubin that overlap many times are refused") {
  const CubinImage cubin;
  std::string image = cubin.bytes;
  const std::string table =
      image.substr(cubin.symbols_at + 2 * sizeof(Elf64_Sym), sizeof(Elf64_Sym));
  const std::size_t at = image.size();
  for (int i = 0; i < 10'000; ++i) image += table;
  const std::size_t symbols = cubin.sections_at + 2 * sizeof(Elf64_Shdr);
  poke(image, symbols + offsetof(Elf64_Shdr, sh_offset), Elf64_Off{at});
  poke(image, symbols + offsetof(Elf64_Shdr, sh_size), Elf64_Xword{image.size() - at});
  CHECK_FALSE(read(image));
}

}  // namespace cubin_test
