// What libjpeg-turbo alone makes of a folder's JPEGs: the parts of its pictures that training would show are decoded
// without the rest, one after another, and nothing else is done with them. The limit for the loader
// (tests/bench/images.py).
//
//   bench_bare_jpeg FOLDER CLASSES SECONDS     one thread; prints {"per_second": …, "per_cpu_second": …}
#include <cstddef>
#include <cstdio>
// After both, whose names it uses.
#include <jpeglib.h>
#include <time.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <vector>

#include "common/config/run_config.h"
#include "common/random.h"
#include "worker/images/image_folder.h"
#include "worker/images/placement.h"

namespace paceline {
namespace {

using File = std::vector<unsigned char>;

File read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// libjpeg's own error manager ends the process at a broken file; its decompressor is used again and again.
class Decoder {
 public:
  Decoder() {
    jpeg_.err = jpeg_std_error(&errors_);
    jpeg_create_decompress(&jpeg_);
  }
  ~Decoder() { jpeg_destroy_decompress(&jpeg_); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  void decode(const File& file, const PictureRect& part) {
    jpeg_mem_src(&jpeg_, file.data(), file.size());
    jpeg_read_header(&jpeg_, TRUE);
    jpeg_.out_color_space = JCS_RGB;
    jpeg_start_decompress(&jpeg_);
    auto x = static_cast<JDIMENSION>(part.x);
    auto width = static_cast<JDIMENSION>(part.width);
    jpeg_crop_scanline(&jpeg_, &x, &width);
    jpeg_skip_scanlines(&jpeg_, static_cast<JDIMENSION>(part.y));
    row_.resize(std::size_t{3} * width);
    JSAMPROW row = row_.data();
    for (int y = 0; y < part.height; ++y) jpeg_read_scanlines(&jpeg_, &row, 1);
    jpeg_abort_decompress(&jpeg_);
  }

 private:
  jpeg_decompress_struct jpeg_{};
  jpeg_error_mgr errors_{};
  std::vector<JSAMPLE> row_;
};

int run(const char* folder, std::int64_t classes, double seconds) {
  DataSection data;
  data.kind = DataKind::kImages;
  data.path = folder;
  data.classes = classes;
  const Result<ImageFolder> opened = open_image_folder(data, "");
  if (!opened.is_ok()) {
    std::cerr << opened.status().message() << "\n";
    return 2;
  }
  const ImageList& list = *opened->train;
  std::vector<File> files;
  for (std::int64_t i = 0; i < list.size(); ++i) files.push_back(read(list.path(i)));
  Decoder decoder;
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  const auto begun = std::chrono::steady_clock::now();
  const double used = processor_seconds();
  std::int64_t count = 0;
  do {
    const std::int64_t i = count % list.size();
    CounterRandom random(1, Stream::kTest, static_cast<std::uint64_t>(count));
    const Placement place = training_placement(list.info(i).stored, data.crop, random);
    decoder.decode(files[static_cast<std::size_t>(i)], place.part);
    ++count;
  } while (std::chrono::steady_clock::now() < until);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  const auto decoded = static_cast<double>(count);
  std::cout << "{\"per_second\": " << decoded / took.count()
            << ", \"per_cpu_second\": " << decoded / (processor_seconds() - used) << "}\n";
  return 0;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: bench_bare_jpeg FOLDER CLASSES SECONDS\n";
    return 2;
  }
  return paceline::run(argv[1], std::atoll(argv[2]), std::atof(argv[3]));
}
