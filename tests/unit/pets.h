// A folder of generated pictures.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "common/config/run_config.h"
#include "tests/unit/encoded_pictures.h"
#include "tests/unit/temp_folder.h"
#include "worker/images/image_folder.h"
#include "worker/images/image_samples.h"

namespace paceline::testing {

inline void put_picture(const std::filesystem::path& file, const Encoded& bytes) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

// train/ and test/ with classes cat and dog, four and two pictures each, none like another.
struct Pets {
  TempFolder folder;
  DataSection data;

  Pets() {
    data.kind = DataKind::kImages;
    data.path = folder.path().string();
    data.classes = 2;
    data.crop.size = 16;
    data.crop.resize = 20;
    for (const char* name : {"cat", "dog"}) {
      for (int i = 0; i < 4; ++i) add("train", name, i);
      for (int i = 0; i < 2; ++i) add("test", name, i + 4);
    }
  }
  void add(const std::string& set, const std::string& name, int i) const {
    const JpegKind kind{.across = 1 + i % 2, .down = 1 + i % 3 % 2, .orientation = i};
    put_picture(
        at(set + "/" + name + "/" + std::to_string(i) + ".jpg"),
        some_jpeg(40 + 7 * i, 33 + 5 * i, kind, static_cast<std::uint64_t>(i + (name == "cat" ? 0 : 100))));
  }
  std::filesystem::path at(const std::string& name) const { return folder.path() / name; }

  Result<ImageFolder> open() const { return open_image_folder(data, ""); }
  std::string fault() const { return open().status().message(); }
  std::shared_ptr<ImageSamples> samples(
      const std::shared_ptr<BadPictures>& bad = std::make_shared<BadPictures>()) const {
    return std::make_shared<ImageSamples>(open().value().train, data, 11, bad);
  }
};

}  // namespace paceline::testing
