// SPDX-License-Identifier: Apache-2.0
// Device variables whose initial values the runtime does not know.
#include <cstdio>
#include <string>
#include <unistd.h>

#include "cudart/cudart_fixture.hpp"

// As crt/host_runtime.h declares them.
extern "C" {
void** __cudaRegisterFatBinary(void* binary);
void __cudaRegisterVar(void** handle, char* host, char* device_address, const char* device_name,
                       int external, std::size_t bytes, int constant, int global);
void __cudaRegisterManagedVar(void** handle, void** host, char* device_address,
                              const char* device_name, int external, std::size_t bytes,
                              int constant, int global);
char __cudaInitModule(void** handle);
void __cudaUnregisterFatBinary(void** handle);
}

namespace cudart_symbol_test {

using namespace berth::test;

namespace {

/// What `body` writes to standard error.
template <class Body>
std::string lines_of(Body&& body) {
  std::FILE* const file = std::tmpfile();
  REQUIRE(file != nullptr);
  const int before = dup(STDERR_FILENO);
  REQUIRE(dup2(fileno(file), STDERR_FILENO) >= 0);
  body();
  REQUIRE(dup2(before, STDERR_FILENO) >= 0);
  close(before);
  std::rewind(file);
  std::string text;
  for (int byte = 0; (byte = std::fgetc(file)) != EOF;) text += static_cast<char>(byte);
  std::fclose(file);
  return text;
}

}  // namespace

TEST_CASE("a variable that is read before it is written is told of once") {
  RuntimeFixture runtime("memory=1GiB");
  static char written;
  static char unknown;
  void** const binary = __cudaRegisterFatBinary(nullptr);
  __cudaRegisterVar(binary, &written, nullptr, "written", 0, 4, 0, 0);
  __cudaRegisterVar(binary, &unknown, nullptr, "unknown", 0, 4, 0, 0);
  int value = 7;
  CHECK(lines_of([&] {
          OK(cudaMemcpyToSymbol(&written, &value, 4, 0, cudaMemcpyHostToDevice));
          OK(cudaMemcpyFromSymbol(&value, &written, 4, 0, cudaMemcpyDeviceToHost));
        }).empty());
  CHECK(value == 7);
  const std::string told = lines_of([&] {
    for (int i = 0; i < 2; ++i)
      OK(cudaMemcpyFromSymbol(&value, &unknown, 4, 0, cudaMemcpyDeviceToHost));
  });
  CHECK(value == 0);
  const std::size_t first = told.find("a device variable is read that the host has not written");
  CHECK(first != std::string::npos);
  CHECK(told.find("a device variable", first + 1) == std::string::npos);
  __cudaUnregisterFatBinary(binary);
}

TEST_CASE("managed variables are told of when they get their memory") {
  RuntimeFixture runtime("memory=1GiB");
  static void* variable = nullptr;
  void** const binary = __cudaRegisterFatBinary(nullptr);
  __cudaRegisterManagedVar(binary, &variable, nullptr, "variable", 0, 4, 0, 0);
  const std::string told = lines_of([&] { CHECK(__cudaInitModule(binary) == 1); });
  CHECK(told.find("managed variables begin as zeros") != std::string::npos);
  __cudaUnregisterFatBinary(binary);
}

}  // namespace cudart_symbol_test
