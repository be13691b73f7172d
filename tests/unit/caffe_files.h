// Caffe's files as texts, put together of layers; and a folder with a net and a solver that are loaded as a run.
#pragma once

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "common/config/load.h"
#include "tests/unit/temp_folder.h"
#include "tools/model.h"

namespace paceline::prototxt {

inline std::string conv(const std::string& name, const std::string& from, const std::string& top,
                        const std::string& numbers) {
  return "layer { name: '" + name + "' type: 'Convolution' bottom: '" + from + "' top: '" + top +
         "' convolution_param { " + numbers + " weight_filler { type: 'xavier' } } }\n";
}
inline std::string pool(const std::string& name, const std::string& from, const std::string& top,
                        const std::string& numbers = "pool: MAX kernel_size: 3 stride: 2") {
  return "layer { name: '" + name + "' type: 'Pooling' bottom: '" + from + "' top: '" + top +
         "' pooling_param { " + numbers + " } }\n";
}
inline std::string dense(const std::string& name, const std::string& from, const std::string& top, int out) {
  return "layer { name: '" + name + "' type: 'InnerProduct' bottom: '" + from + "' top: '" + top +
         "' inner_product_param { num_output: " + std::to_string(out) +
         " weight_filler { type: 'xavier' } } }\n";
}
inline std::string plain(const std::string& type, const std::string& blob, const std::string& more = "") {
  return "layer { name: '" + type + "_" + blob + "' type: '" + type + "' bottom: '" + blob + "' top: '" +
         blob + "' " + more + " }\n";
}
inline std::string data(const std::string& phase, int batch, const std::string& transform = "") {
  return "layer { name: 'd' type: 'Data' top: 'data' top: 'label' include { phase: " + phase +
         " } transform_param { " + transform +
         " } data_param { source: 'lmdb' batch_size: " + std::to_string(batch) + " } }\n";
}
inline const std::string kEnd =
    "layer { name: 'right' type: 'Accuracy' bottom: 'scores' bottom: 'label' top: 'right' include { phase: "
    "TEST } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'scores' bottom: 'label' top: 'loss' }\n";

// Of the kind of LeNet, for 28 x 28 grey pixels: 431,080 parameters.
inline const std::string kLenet =
    "name: 'digits'\n" + data("TRAIN", 64, "scale: 0.00390625") + data("TEST", 100) +
    conv("c1", "data", "c1", "num_output: 20 kernel_size: 5 stride: 1") +
    pool("p1", "c1", "p1", "pool: MAX kernel_size: 2 stride: 2") +
    conv("c2", "p1", "c2", "num_output: 50 kernel_size: 5") +
    pool("p2", "c2", "p2", "pool: MAX kernel_size: 2 stride: 2") + dense("f1", "p2", "f1", 500) +
    plain("ReLU", "f1") + dense("f2", "f1", "scores", 10) + kEnd;

// Of the kind of CIFAR-10 quick: 145,578 parameters.
inline const std::string kQuick =
    data("TRAIN", 100, "mean_file: 'mean.binaryproto'") + data("TEST", 100, "mean_file: 'mean.binaryproto'") +
    conv("conv1", "data", "conv1", "num_output: 32 pad: 2 kernel_size: 5") + pool("pool1", "conv1", "pool1") +
    plain("ReLU", "pool1") + conv("conv2", "pool1", "conv2", "num_output: 32 pad: 2 kernel_size: 5") +
    plain("ReLU", "conv2") + pool("pool2", "conv2", "pool2", "pool: AVE kernel_size: 3 stride: 2") +
    conv("conv3", "pool2", "conv3", "num_output: 64 pad: 2 kernel_size: 5") + plain("ReLU", "conv3") +
    pool("pool3", "conv3", "pool3", "pool: AVE kernel_size: 3 stride: 2") + dense("ip1", "pool3", "ip1", 64) +
    dense("ip2", "ip1", "scores", 10) + kEnd;

inline const std::string kSolver =
    "net: 'net.prototxt'\nbase_lr: 0.001\nmomentum: 0.9\nweight_decay: 0.004\nlr_policy: 'fixed'\n"
    "max_iter: 4000\ntest_iter: 100\ntest_interval: 500\nsnapshot: 4000\nsolver_mode: CPU\n";

// The same without evaluations, for nets that have no phase TEST.
inline const std::string kTrainOnly = [] {
  std::string solver = kSolver;
  return solver.replace(solver.find("test_iter"), std::string("test_iter: 100\ntest_interval: 500\n").size(),
                        "");
}();

class Files {
 public:
  Files() {
    put("run.yaml", "train: {caffe_solver: " + path("solver.prototxt") + "}\ndata: {path: /data}\n");
  }

  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  void put(const std::string& name, const std::string& text) const { std::ofstream(path(name)) << text; }

  // The configuration of these, or its error; of a path only the name.
  Result<RunConfig> load(const std::string& net, const std::string& solver = kSolver,
                         const std::vector<std::string>& overrides = {}) {
    put("net.prototxt", net);
    put("solver.prototxt", solver);
    notes.clear();
    return load_config(path("run.yaml"), overrides, LoadFor::kReading, &notes);
  }
  std::string refusal(const std::string& net, const std::string& solver = kTrainOnly,
                      const std::vector<std::string>& overrides = {}) {
    const auto config = load(net, solver, overrides);
    if (config.is_ok()) return "accepted";
    std::string line = config.status().message();
    const std::string folder = folder_.path().string() + "/";
    for (std::size_t at; (at = line.find(folder)) != std::string::npos;) line.erase(at, folder.size());
    CHECK(line.find('\n') == std::string::npos);
    return line;
  }
  // What `paceline model` prints.
  std::string model(const std::string& net, const std::string& input = "",
                    const std::string& phase = "train") {
    put("net.prototxt", net);
    std::ostringstream out;
    return paceline::model({.path = path("net.prototxt"), .input = input, .phase = phase}, out, out) == 0
               ? out.str()
               : "refused: " + out.str();
  }

  std::vector<std::string> notes;

 private:
  const testing::TempFolder folder_;
};

inline std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of('\n');
  return text.substr(text.rfind('\n', end) + 1, end - text.rfind('\n', end));
}

}  // namespace paceline::prototxt
