#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`berth devices`."""

import os
import unittest

from berth_command import CommandTest, berth


class Devices(CommandTest):
    def test_text_fits_80_columns_and_names_each_device(self):
        name = "N" * 40
        out = self.assert_success(berth("devices", env={"BERTH_SIM": f"devices=3,name={name}"})).out
        for device in ("cuda:0", "cuda:1", "cuda:2"):
            self.assertIn(device, out)
        self.assertEqual(out.count(name), 3)
        self.assertEqual(out.count("compute 9.0, 132 multiprocessors"), 3)
        self.assertLessEqual(max(map(len, out.splitlines())), 80, out)
        for fact in ("3 copy engines", "NUMA node 0", "compute mode shared", "0 B in use"):
            self.assertEqual(out.count(fact), 3, fact)
        self.assertEqual(out.count("no other processes"), 3)

    def test_text_has_the_versions_of_driver_and_toolkit(self):
        env = {"BERTH_SIM": "devices=1,driver_version=12040"}
        out = self.assert_success(berth("devices", env=env)).out
        self.assertRegex(
            out, r"(?m)^versions: driver CUDA 12\.4, built with the headers of CUDA \d+\.\d$"
        )

    def peers(self, machine):
        """The rows of the matrix, each without its title."""
        lines = self.assert_success(berth("devices", env={"BERTH_SIM": machine})).out.splitlines()
        self.assertLessEqual(max(map(len, lines)), 80)
        begin = next((at for at, line in enumerate(lines) if line.startswith("from ")), None)
        return None if begin is None else [line.split() for line in lines[begin:]]

    def test_text_says_who_reaches_whom_and_through_what(self):
        self.assertIsNone(self.peers("devices=1"))
        rows = self.peers("devices=2,memory=8GiB,mig=1:2")
        self.assertEqual(rows[0], ["from", "cuda:0", "cuda:1", "cuda:2"])
        self.assertEqual(rows[1][:2], ["cuda:0", "same"])
        self.assertEqual(rows[2][2], "same")
        rows = self.peers("devices=2")
        self.assertEqual(rows[1:3], [["cuda:0", "same", "system"], ["cuda:1", "system", "same"]])
        rows = self.peers("devices=2,peer=off")
        self.assertEqual(rows[1:3], [["cuda:0", "same", "no"], ["cuda:1", "no", "same"]])

    def test_the_matrix_of_many_devices_goes_on_below(self):
        rows = self.peers("devices=17")
        titles = [row[1:] for row in rows if row and row[0] == "from"]
        self.assertEqual(
            [title for part in titles for title in part], [f"cuda:{n}" for n in range(17)]
        )
        self.assertEqual(sum(row[:1] == ["cuda:16"] for row in rows), 3)

    def test_json(self):
        env = {"BERTH_SIM": "devices=2,memory=3GiB/5GiB,name=Some GPU"}
        devices = self.assert_success(berth("devices", "--json", env=env)).json()["devices"]
        self.assertEqual([device["memory_bytes"] for device in devices], [3 << 30, 5 << 30])
        for position, device in enumerate(devices):
            self.assertEqual(
                set(device),
                {"physical", "logical", "visible", "explanation", "uuid", "pci_bus_id", "name"}
                | {"memory_bytes", "mig_mode", "lost", "instances", "facts", "memory_use", "peers"}
                | {"utilization_percent"},
            )
            self.assertEqual(device["facts"]["compute_capability"], "9.0")
            self.assertEqual(device["facts"]["multiprocessors"], 132)
            self.assertEqual(
                set(device["facts"]),
                {"compute_capability", "multiprocessors", "copy_engines", "host_numa_node"}
                | {"compute_mode"},
            )
            self.assertEqual(device["facts"]["compute_mode"], "shared")
            self.assertIsNone(device["utilization_percent"])
            self.assertEqual(device["memory_use"]["bytes_used"], 0)
            self.assertEqual(device["memory_use"]["processes"], [])
            other = {"logical": 1 - position, "access": True, "native_atomics": True}
            self.assertEqual(device["peers"], [other | {"performance_rank": 0, "link": "system"}])
            self.assertEqual(device["instances"], [])
            self.assertIs(device["mig_mode"], False)
            self.assertEqual(device["physical"], position)
            self.assertEqual(device["logical"], position)
            self.assertIs(device["visible"], True)
            self.assertEqual(device["name"], "Some GPU")
            self.assertRegex(device["uuid"], r"^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
            self.assertRegex(
                device["pci_bus_id"], r"^[0-9A-F]{8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-9A-F]$"
            )

    def test_json_has_the_versions_and_what_is_wrong(self):
        env = {"BERTH_SIM": "devices=2", "CUDA_VISIBLE_DEVICES": "1,x"}
        found = self.assert_success(berth("devices", "--json", env=env), quiet=False).json()
        self.assertEqual(
            set(found), {"driver", "toolkit_version", "visibility_problem", "devices", "backends"}
        )
        driver = found["driver"]
        self.assertEqual((driver["name"], driver["usable"], driver["problem"]), ("sim", True, None))
        self.assertGreaterEqual(driver["version"], 12000)
        self.assertGreaterEqual(found["toolkit_version"], 12000)
        self.assertIn('"x"', found["visibility_problem"])

    def test_hidden_devices_are_listed_without_a_logical_ordinal(self):
        env = {"BERTH_SIM": "devices=3", "CUDA_VISIBLE_DEVICES": "2,0"}
        devices = self.assert_success(berth("devices", "--json", env=env)).json()["devices"]
        self.assertEqual([device["logical"] for device in devices], [1, None, 0])
        self.assertEqual([device["visible"] for device in devices], [True, False, True])
        self.assertRegex(berth("devices", env=env).out, r"(?m)^hidden +1 ")

    def test_hidden_devices_are_explained_however_the_driver_is_chosen(self):
        for env, why in (
            ({"CUDA_VISIBLE_DEVICES": ""}, "CUDA_VISIBLE_DEVICES is empty"),
            ({"BERTH_SIM": "mig=0:0"}, "it is in MIG mode without instances"),
        ):
            chosen = berth("devices", "--explain", env=env)
            named = berth("devices", "--explain", "--driver", "sim", env=env)
            self.assertIn(f"Hidden: {why}", self.assert_success(named).out)
            self.assertEqual(named.out, chosen.out)
            refused = berth("replay", self.trace, "--driver", "sim", env=env)
            self.assert_error(refused, 3, "berth devices --explain says why")
            self.assertNotIn("--driver sim needs none", refused.err)

    def test_a_split_device_is_followed_by_its_instances(self):
        env = {"BERTH_SIM": "devices=2,memory=8GiB,mig=1:2", "CUDA_VISIBLE_DEVICES": "1"}
        whole, split = self.assert_success(berth("devices", "--json", env=env)).json()["devices"]
        self.assertIs(whole["visible"], False)
        self.assertIs(split["mig_mode"], True)
        self.assertIsNone(split["logical"])
        for index, instance in enumerate(split["instances"]):
            self.assertEqual(instance["logical"], index)
            self.assertEqual(instance["gpu_instance"], index + 1)
            self.assertEqual(instance["compute_instance"], 0)
            self.assertEqual(instance["memory_bytes"], 4 << 30)
            self.assertRegex(instance["uuid"], r"^MIG-")
        out = berth("devices", env=env).out
        self.assertRegex(out, r"(?m)^split +1 +8\.00 GiB")
        self.assertRegex(out, r"(?m)^cuda:1 +1/2/0 +4\.00 GiB")

    def test_explanations_fit_80_columns_whatever_the_variable_says(self):
        for visible in ("1", "1,x,0", ",".join(["GPU-" + "0" * 32] * 8), "0" * 300):
            env = {"BERTH_SIM": "devices=2", "CUDA_VISIBLE_DEVICES": visible}
            outcome = self.assert_success(berth("devices", "--explain", env=env), quiet=False)
            self.assertLessEqual(max(map(len, outcome.out.splitlines())), 80, outcome.out)
            outcome_of_json = self.assert_success(berth("devices", "--json", env=env), quiet=False)
            explained = outcome_of_json.json()["devices"]
            # Without what wrapping adds, and what it takes from the ends of lines.
            text = "".join(outcome.out.split())
            for device in explained:
                self.assertIn("".join(device["explanation"].split()), text)
        self.assertNotIn("Hidden:", berth("devices", env=env).out)

    def test_malformed_visibility_is_a_warning(self):
        env = {"BERTH_SIM": "devices=2", "CUDA_VISIBLE_DEVICES": "1,x"}
        outcome = self.assert_success(berth("devices", "--json", env=env), quiet=False)
        self.assertEqual([device["logical"] for device in outcome.json()["devices"]], [None, 0])
        self.assertRegex(outcome.err, r"^berth: warning: .*CUDA_VISIBLE_DEVICES.*\n$")


@unittest.skipUnless("BERTH_PJRT_PLUGINS" in os.environ, "built without PJRT")
class DevicesOfPlugins(CommandTest):
    PATH = os.environ.get("BERTH_PJRT_PLUGINS", "") + "/libpjrt_plugin_current.so"

    def conf(self, options=""):
        return {"BERTH_CONF": f"pjrt=test:{self.PATH}{options}", "BERTH_SIM": "devices=2"}

    def test_text_lists_cuda_devices_and_those_of_plugins(self):
        env = self.conf("?devices=2&memory_bytes=2097152")
        out = self.assert_success(berth("devices", env=env)).out
        self.assertIn("test: PJRT test 7.1, API 0.81\n", out)
        self.assertIn("  pjrt_api_version 0.81, pjrt_extensions FFI type_99 Layouts\n", out)
        self.assertRegex(out, r"(?m)^cuda:1 .*\n")
        self.assertRegex(out, r"(?m)^test:1 +2\.00 MiB  test device\n +TestDevice\(id=1\)\n")
        self.assertIn("coords 1,0,0, num_cores 2", out.replace("\n          ", " "))
        self.assertLessEqual(max(map(len, out.splitlines())), 80, out)

    def test_json_has_the_facts_of_each_device(self):
        env = self.conf("?devices=2&memory_bytes=2097152")
        (backend,) = self.assert_success(berth("devices", "--json", env=env)).json()["backends"]
        self.assertEqual(backend["type"], "test")
        self.assertEqual(backend["backend"], "PJRT test 7.1, API 0.81")
        facts = {"pjrt_api_version": "0.81", "pjrt_extensions": "FFI type_99 Layouts"}
        self.assertEqual(backend["attributes"], facts)
        self.assertIsNone(backend["problem"])
        self.assertEqual([device["device"] for device in backend["devices"]], ["test:0", "test:1"])
        second = backend["devices"][1]
        self.assertEqual(second["memory_bytes"], 2097152)
        self.assertEqual(second["memory"], {"bytes_used": 0, "bytes_limit": 2097152})
        self.assertEqual(second["attributes"]["coords"], [1, 0, 0])
        self.assertEqual(second["attributes"]["vendor"], "berth")
        self.assertIs(second["attributes"]["is_test"], True)

    def test_a_plugin_that_cannot_be_used_is_named_with_the_reason(self):
        env = {"BERTH_CONF": "pjrt=test:/nonexistent.so"}
        outcome = self.assert_success(berth("devices", env=env), quiet=False)
        self.assertIn("test: no devices: /nonexistent.so cannot be loaded", outcome.out)
        self.assertIn("device type test has no devices", outcome.err)
        (backend,) = berth("devices", "--json", env=env).json()["backends"]
        self.assertIn("/nonexistent.so", backend["problem"])
        self.assertEqual(backend["devices"], [])

    def test_visibility_of_chips_is_explained_as_that_of_cuda_devices(self):
        env = {"BERTH_CONF": f"pjrt=tpu:{self.PATH}", "TPU_VISIBLE_CHIPS": "7,100"}
        out = self.assert_success(berth("devices", "--explain", env=env)).out
        text = out.replace("\n          ", " ")
        self.assertIn('Visible as tpu:0: TPU_VISIBLE_CHIPS="7,100" names chip 100', text)
        self.assertIn('tpu:1: the backend shows chip 101, although TPU_VISIBLE_CHIPS="7,100"', text)
        self.assertRegex(out, r"(?m)^hidden +unknown  chip 7$")
        self.assertRegex(text, r'Hidden: TPU_VISIBLE_CHIPS="7,100" names chip 7, which the')
        self.assertLessEqual(max(map(len, out.splitlines())), 80, out)
        self.assertNotIn("Visible as tpu", berth("devices", env=env).out)
        (backend,) = self.assert_success(berth("devices", "--json", env=env)).json()["backends"]
        self.assertIn("names chip 100", backend["devices"][0]["explanation"])
        self.assertEqual([each["chip"] for each in backend["hidden"]], [7])
        self.assertIn("names chip 7", backend["hidden"][0]["explanation"])

    def test_a_client_that_fails_is_shown_with_the_variables_that_select_devices(self):
        conf = f"pjrt=tpu:{self.PATH}?fail=Client_Create"
        env = {"BERTH_CONF": conf, "TPU_VISIBLE_CHIPS": "5"}
        outcome = self.assert_success(berth("devices", "--explain", env=env), quiet=False)
        text = "".join(outcome.out.split())
        problem = 'PJRT_Client_Create failed with INTERNAL (13): told to fail'
        self.assertIn("".join(problem.split()), text)
        self.assertIn('TPU_VISIBLE_CHIPS="5"', text)
        self.assertIn("Hidden:chip5hasnoclient,becausetheplug-inoftpucannotbeused", text)

    def test_statistics_that_fail_are_shown_as_the_error(self):
        env = self.conf("?fail=Device_MemoryStats")
        (backend,) = self.assert_success(berth("devices", "--json", env=env)).json()["backends"]
        for device in backend["devices"]:
            self.assertIsNone(device["memory_bytes"])
            why = device["attributes"]["memory_stats_error"]
            self.assertIn("PJRT_Device_MemoryStats failed with INTERNAL (13)", why)

    def test_a_topology_gets_the_options_of_the_plugin(self):
        env = self.conf("?label=labelled")
        outcome = self.assert_success(berth("devices", "--topology", "test:test:4", env=env))
        self.assertIn("test: PJRT labelled topology test:4, API 0.81", outcome.out)

    def test_a_topology_needs_no_hardware(self):
        outcome = berth("devices", "--topology", "test:test:4", env=self.conf())
        out = self.assert_success(outcome).out
        self.assertIn("test: PJRT test topology test:4, API 0.81", out)
        self.assertRegex(out, r"(?m)^test:3 +unknown  test device$")
        for text in ("test", "tpu:v5e:2x2x1"):
            outcome = berth("devices", "--topology", text, env=self.conf())
            self.assertEqual(outcome.exit_code, 2, outcome.story)
            self.assertIn("accepted: TYPE:NAME", outcome.err)
        outcome = berth("devices", "--topology", "test:other", env=self.conf())
        self.assertEqual(outcome.exit_code, 1, outcome.story)
        self.assertIn("no topology other", outcome.err)


if __name__ == "__main__":
    unittest.main()
