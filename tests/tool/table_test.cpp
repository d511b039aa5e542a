// SPDX-License-Identifier: Apache-2.0
#include "tool/table.hpp"

#include <doctest/doctest.h>

using namespace berth::tool;

TEST_CASE("columns align under their titles, without blanks at the end") {
  const Table table({{"name", 6}, {"bytes", 7, true}, {"note", 8}});
  CHECK(table.header() == "name      bytes  note\n");
  CHECK(table.row({"a", "12", ""}) == "a            12\n");
  CHECK(table.row({"longer", "1234567", "x"}) == "longer  1234567  x\n");
}

TEST_CASE("a cell that is too wide moves its row and loses nothing") {
  const Table table({{"name", 2}, {"n", 1, true}});
  CHECK(table.row({"wide", "1"}) == "wide  1\n");
}
