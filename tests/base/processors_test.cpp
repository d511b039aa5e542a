// SPDX-License-Identifier: Apache-2.0
#include "base/processors.hpp"

#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "support/temporary_folder.hpp"

namespace processors_test {

using namespace berth;
using namespace berth::test;

namespace {

/// A machine's /proc and /sys.
struct Machine {
  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = folder.path() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  [[nodiscard]] std::optional<std::size_t> quota() const { return processor_quota(folder.path()); }

  TemporaryFolder folder;
};

}  // namespace

TEST_CASE("without control groups, and without a bound, there is no quota") {
  const Machine machine;
  CHECK(machine.quota() == std::nullopt);
  machine.write("proc/self/cgroup", "0::/a/b\n");
  CHECK(machine.quota() == std::nullopt);
  machine.write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  CHECK(machine.quota() == std::nullopt);
}

TEST_CASE("the quota is the least of the group and its ancestors, rounded up") {
  const Machine machine;
  machine.write("proc/self/cgroup", "0::/pods/one/main\n");
  machine.write("sys/fs/cgroup/pods/cpu.max", "600000 100000\n");
  CHECK(machine.quota() == 6);
  machine.write("sys/fs/cgroup/pods/one/main/cpu.max", "1200000 100000\n");
  CHECK(machine.quota() == 6);
  machine.write("sys/fs/cgroup/pods/one/cpu.max", "250000 100000\n");
  CHECK(machine.quota() == 3);
  machine.write("sys/fs/cgroup/pods/one/main/cpu.max", "5000 100000\n");
  CHECK(machine.quota() == 1);
}

TEST_CASE("a container sees its cgroup at the root") {
  const Machine machine;
  machine.write("proc/self/cgroup", "0::/\n");
  machine.write("sys/fs/cgroup/cpu.max", "400000 100000\n");
  CHECK(machine.quota() == 4);
  machine.write("proc/self/cgroup", "0::/../../outside\n");
  CHECK(machine.quota() == 4);
}

TEST_CASE("cgroups of version 1 have their quota and period in separate files") {
  const Machine machine;
  machine.write("proc/self/cgroup", "12:memory:/x\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/\n");
  CHECK(machine.quota() == std::nullopt);
  machine.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  machine.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  CHECK(machine.quota() == std::nullopt);
  machine.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000\n");
  CHECK(machine.quota() == 2);
  machine.write("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "50000\n");
  machine.write("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "50000\n");
  CHECK(machine.quota() == 1);
}

TEST_CASE("malformed quotas are ignored") {
  const Machine machine;
  for (const char* const groups : {"", "nonsense\n", "0:\n", "::\n", "0::/\n"}) {
    machine.write("proc/self/cgroup", groups);
    for (const char* const text : {"", "many\n", "-5 100000\n", "100000 0\n", "100000\n"}) {
      machine.write("sys/fs/cgroup/cpu.max", text);
      CHECK(machine.quota() == std::nullopt);
    }
  }
}

TEST_CASE("a process may use one processor at least") {
  CHECK(processors_allowed() >= 1);
}

}  // namespace processors_test
