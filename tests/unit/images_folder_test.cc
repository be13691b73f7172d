// A folder of pictures: what is in it, and what is left out and why.
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/unit/encoded_pictures.h"
#include "tests/unit/pets.h"
#include "tests/unit/temp_folder.h"
#include "worker/data/batch_maker.h"
#include "worker/images/folder_index.h"
#include "worker/images/image_folder.h"
#include "worker/run_data.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using testing::Pets;
using testing::put_picture;
using testing::TempFolder;

const std::vector<std::uint8_t> kFrame = {0xFF, 0xC0};

TEST_CASE("labels_are_the_places_of_the_classes_names_and_files_come_by_path") {
  const Pets pets;
  const ImageFolder folder = pets.open().value();
  REQUIRE(folder.train->size() == 8);
  CHECK(folder.test->size() == 4);
  CHECK(folder.train->name(0) == "cat/0.jpg");
  CHECK(folder.train->label(3) == 0);
  CHECK(folder.train->name(4) == "dog/0.jpg");
  CHECK(folder.train->label(4) == 1);
  CHECK(folder.left_out.empty());
}

TEST_CASE("two_lists_say_which_files_there_are_and_their_labels") {
  const Pets pets;
  const auto list = [&](const std::string& name, const std::string& text) {
    put_picture(pets.at(name), Encoded(text.begin(), text.end()));
  };
  fs::rename(pets.at("train/dog/1.jpg"), pets.at("train/dog/one of mine.jpg"));
  list("train.txt", "train/dog/one of mine.jpg 0\r\n\ntrain/cat/0.jpg\t1\ntrain/nowhere.jpg 1\n");
  CHECK_THAT(pets.fault(), Catch::EndsWith("has a list train.txt and no test.txt or val.txt, expected both"));
  list("val.txt", pets.at("test/cat/4.jpg").string() + " 1");
  for (int i = 0; i < 2; ++i) {  // the second time from the indices
    const ImageFolder folder = pets.open().value();
    REQUIRE(folder.train->size() == 2);
    CHECK((folder.train->name(0) == "train/dog/one of mine.jpg" && folder.train->label(0) == 0));
    CHECK((folder.train->name(1) == "train/cat/0.jpg" && folder.train->label(1) == 1));
    CHECK((folder.test->size() == 1 && folder.test->label(0) == 1));
    CHECK(folder.test->path(0) == pets.at("test/cat/4.jpg"));
    REQUIRE(folder.left_out.size() == 1);
    CHECK_THAT(folder.left_out[0],
               Catch::StartsWith(pets.at("train/nowhere.jpg").string() + ": cannot open "));
  }
  CHECK(fs::exists(pets.at(".paceline-index-train.txt")));
  for (const std::string line : {"train/cat/0.jpg 2", "train/cat/0.jpg", "7", "a.jpg 0x1", "a.jpg -1"}) {
    list("train.txt", "train/cat/0.jpg 1\n" + line);
    CHECK(pets.fault() ==
          pets.at("train.txt").string() + ":2: got \"" + line + "\", expected a path and a label of 0 to 1");
  }
  // A label that no loss counts is none of the classes'.
  list("train.txt", "train/cat/0.jpg 1\ntrain/cat/1.jpg -1\ntrain/cat/2.jpg 0");
  CHECK(open_image_folder(pets.data, "", -1).value().train->label(1) == 65535);
  CHECK_THAT(open_image_folder(pets.data, "", 255).status().message(),
             Catch::Contains("train.txt:2: ") && Catch::EndsWith("a label of 0 to 1, or the ignored 255"));
  list("train.txt", "train/cat/0.jpg 1");
  CHECK_THAT(pets.fault(), Catch::Contains("train.txt: no picture of label 0 that can be read"));
  list("train.txt", "train/cat/0.jpg 1\ntrain/cat/1.jpg 0");
  list("val.txt", "");
  CHECK_THAT(pets.fault(), Catch::EndsWith("val.txt: no picture to test with, expected at least one"));
}

TEST_CASE("of_a_thousand_classes_each_has_its_label") {
  const Pets pets;
  DataSection data = pets.data;
  data.classes = 1000;
  // ImageNet's, as a list.
  std::string lines;
  for (int label = 999; label >= 0; --label) lines += "train/cat/0.jpg " + std::to_string(label) + "\n";
  put_picture(pets.at("train.txt"), Encoded(lines.begin(), lines.end()));
  put_picture(pets.at("test.txt"), Encoded(lines.begin(), lines.end()));
  const ImageFolder listed = open_image_folder(data, "").value();
  const ImageSamples samples(listed.train, data, 11, std::make_shared<BadPictures>());
  MiniBatch batch;
  REQUIRE(make_evaluation_batch(samples, 0, 1000, batch).is_ok());
  for (std::int64_t i = 0; i < 1000; ++i) CHECK(batch.labels[static_cast<std::size_t>(i)] == 999 - i);
  // 300 folders of one picture.
  const TempFolder many;
  for (const std::string set : {"train", "test"}) {
    for (int i = 0; i < 300; ++i) {
      const fs::path folder = many.path() / set / std::to_string(1000 + i);
      fs::create_directories(folder);
      fs::create_hard_link(pets.at("train/cat/0.jpg"), folder / "0.jpg");
    }
  }
  data.path = many.path().string();
  data.classes = 300;
  const ImageFolder folders = open_image_folder(data, "").value();
  REQUIRE(folders.train->size() == 300);
  for (std::int64_t i = 0; i < 300; ++i) CHECK((folders.train->label(i) == i && folders.test->label(i) == i));
}

TEST_CASE("val_is_a_name_of_the_test_set_too") {
  const Pets pets;
  fs::rename(pets.at("test"), pets.at("val"));
  CHECK(pets.open().value().test->size() == 4);
}

TEST_CASE("of_one_folder_a_share_of_each_class_is_the_test_set_and_no_picture_is_in_both") {
  Pets pets;
  pets.data.path = pets.at("train").string();
  pets.data.test_share = 0.25;
  const ImageFolder folder = pets.open().value();
  CHECK(folder.train->size() == 6);
  REQUIRE(folder.test->size() == 2);
  CHECK(folder.test->label(0) == 0);
  CHECK(folder.test->label(1) == 1);
  std::set<std::string_view> names;
  for (const auto& list : {folder.train, folder.test}) {
    for (std::int64_t i = 0; i < list->size(); ++i) names.insert(list->name(i));
  }
  CHECK(names.size() == 8);
}

TEST_CASE("what_is_no_picture_is_left_out_with_its_name_and_reason") {
  Pets pets;
  put_picture(pets.at("train/cat/empty.jpg"), {});
  put_picture(pets.at("train/cat/text.jpg"), {'h', 'e', 'l', 'l', 'o'});
  put_picture(pets.at("train/cat/a-png.jpg"), png_of(30, 30, some_pixels(30, 30, 3)));
  put_picture(pets.at("train/cat/.hidden.jpg"), {});
  put_picture(pets.at("train/cat/notes.txt"), {'x'});
  Encoded cut_off = some_jpeg(50, 50);
  cut_off.resize(cut_off.size() - 40);
  put_picture(pets.at("train/dog/cut.JPG"), cut_off);
  Encoded huge = some_jpeg(50, 50);
  const auto frame = std::search(huge.begin(), huge.end(), kFrame.begin(), kFrame.end());
  for (int i = 5; i < 9; ++i) frame[i] = i % 2 == 1 ? 0xEA : 0x60;  // 60,000 x 60,000
  put_picture(pets.at("train/dog/huge.jpg"), huge);
  fs::create_symlink("nowhere", pets.at("train/dog/lost.png"));
  put_picture(pets.at("train/dog/no-height.jpg"), [&] {
    Encoded flat = some_jpeg(50, 50);
    const auto at = std::search(flat.begin(), flat.end(), kFrame.begin(), kFrame.end());
    at[5] = at[6] = 0;
    return flat;
  }());
  const ImageFolder folder = pets.open().value();
  CHECK(folder.train->size() == 9);  // with the PNG
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"train/cat/empty.jpg", "an empty file"},
      {"train/cat/text.jpg", "neither a JPEG nor a PNG"},
      {"train/dog/cut.JPG", "JPEG that is cut off"},
      {"train/dog/huge.jpg", "60000 x 60000 pixels, expected at most data.max_pixels, 67108864"},
      {"train/dog/lost.png",
       "cannot open " + pets.at("train/dog/lost.png").string() + ": No such file or directory"},
      {"train/dog/no-height.jpg", "JPEG of 50 x 0 pixels"}};
  REQUIRE(folder.left_out.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(folder.left_out[i] == pets.at(expected[i].first).string() + ": " + expected[i].second);
  }
  REQUIRE(folder.warnings.size() == 1);
  CHECK_THAT(folder.warnings[0], Catch::StartsWith("1 files in "));

  pets.data.on_bad = OnBad::kFail;
  CHECK(pets.fault() ==
        "picture " + pets.at("train/cat/empty.jpg").string() + ": an empty file (data.on_bad: fail)");
}

TEST_CASE("a_folder_that_cannot_be_learned_from_is_refused_with_the_folder_s_name") {
  Pets pets;
  pets.data.classes = 3;
  CHECK(pets.fault() ==
        "data folder '" + pets.at("train").string() + "' has 2 folders of classes, expected data.classes, 3");
  fs::create_directories(pets.at("train/emu"));
  CHECK(pets.fault() == "class folder '" + pets.at("train/emu").string() +
                            "' has no picture that can be read, expected at least one");
  pets.add("train", "emu", 0);
  CHECK(pets.open().is_ok());  // one picture is a class
  pets.add("test", "fox", 0);
  CHECK(pets.fault() == "class folder '" + pets.at("test/fox").string() + "' has no counterpart in " +
                            pets.at("train").string() + ", expected only classes that are trained");
  fs::remove_all(pets.at("test"));
  CHECK(pets.fault() ==
        "data folder '" + pets.data.path +
            "' has no folder test or val, expected train and test (or val), or a data.test_share");
  fs::create_directories(pets.at("test"));
  CHECK(pets.fault() ==
        "data folder '" + pets.at("test").string() + "' has no picture to test with, expected at least one");
  pets.data.test_share = 0.5;
  CHECK_THAT(pets.fault(), Catch::StartsWith("data.test_share: '"));
  fs::remove_all(pets.at("train/emu"));
  fs::remove_all(pets.at("train/dog"));
  pets.data.test_share = 0;
  pets.data.classes = 2;
  CHECK_THAT(pets.fault(), Catch::EndsWith("has 1 folder of a class, expected data.classes, 2"));
  pets.data.path = pets.at("nowhere").string();
  CHECK(pets.open().status().code() == StatusCode::kNotFound);
}

TEST_CASE("an_index_spares_the_second_look_and_a_changed_folder_is_looked_at_again") {
  const Pets pets;
  const fs::path train = pets.at("train");
  CHECK(index_folder(train, "").value().heads_read == 8);
  CHECK(index_folder(train, "").value().heads_read == 0);
  put_picture(pets.at("train/dog/new.png"), png_of(1, 1, {1, 2, 3}));
  const FolderIndex grown = index_folder(train, "").value();
  CHECK(grown.heads_read == 1);
  CHECK(grown.files.size() == 9);
  put_picture(pets.at("train/dog/new.png"), png_of(2, 1, {1, 2, 3, 4, 5, 6}));
  const FolderIndex changed = index_folder(train, "").value();
  CHECK(changed.heads_read == 1);
  CHECK(changed.files.back().info.stored == PictureSize{2, 1});
  fs::remove(pets.at("train/dog/new.png"));
  CHECK(index_folder(train, "").value().files.size() == 8);
  // Whatever is in the file: it is only a shortcut.
  put_picture(train / kIndexName, {'p', 'a', 'c', 'e', '\n', '\t', 'x'});
  CHECK(index_folder(train, "").value().heads_read == 8);
  CHECK(index_folder(train, "").value().heads_read == 0);
}

TEST_CASE("many_files_are_looked_at_by_several_threads_and_each_fault_is_its_own_file_s") {
  const TempFolder folder;
  for (int i = 0; i < 300; ++i) {
    const std::string name = std::to_string(1000 + i) + ".png";
    put_picture(folder.path() / "all" / name,
                i == 222 ? Encoded{'x'} : png_of(1 + i, 1, Encoded(3 * (1 + i))));
  }
  const FolderIndex index = index_folder(folder.path(), "").value();
  REQUIRE(index.files.size() == 300);
  for (int i = 0; i < 300; ++i) {
    const IndexedFile& file = index.files[static_cast<std::size_t>(i)];
    CHECK(file.fault.empty() == (i != 222));
    if (i != 222) CHECK(file.info.stored.width == 1 + i);
  }
}

TEST_CASE("a_picture_whose_pixels_begin_late_is_found_by_a_longer_look") {
  const TempFolder folder;
  Encoded file = some_jpeg(31, 20);
  Encoded comment = {0xFF, 0xFE, 0xFF, 0xFF};
  comment.resize(65'537);
  for (int i = 0; i < 5; ++i) file.insert(file.begin() + 2, comment.begin(), comment.end());
  put_picture(folder.path() / "late.jpg", file);
  CHECK(read_picture_info(folder.path() / "late.jpg").value().stored == PictureSize{31, 20});
}

// No more files can be opened while this lives.
struct NoDescriptors {
  rlimit before{};
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before);
    const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before); }
};

TEST_CASE("what_could_not_be_read_this_time_is_looked_at_again_and_is_no_bad_picture") {
  const Pets pets;
  const fs::path train = pets.at("train");
  const fs::path pipe = train / "cat" / "pipe.jpg";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  for (const std::int64_t heads_read : {9, 1, 1}) {
    const FolderIndex index = index_folder(train, "").value();
    CHECK(index.heads_read == heads_read);
    CHECK_THAT(index.files.at(4).fault, Catch::EndsWith("it is no regular file"));
  }
  // Without descriptors every picture would be bad.
  const auto bad = std::make_shared<BadPictures>();
  const auto samples = pets.samples(bad);
  std::vector<float> image(3 * 16 * 16);
  Status status;
  Status trained;
  {
    const NoDescriptors now;
    status = read_picture_info(train / "cat" / "0.jpg").status();
    trained = samples->train({0, 0}, image).status();
  }
  CHECK(status.code() == StatusCode::kResourceExhausted);
  CHECK(trained.code() == StatusCode::kResourceExhausted);
  CHECK(bad->count() == 0);
}

TEST_CASE("files_of_another_date_are_others_to_the_cache_and_the_same_to_the_nodes") {
  const Pets pets;
  const auto before = pets.open().value().train;
  const fs::path one = pets.at("train/cat/1.jpg");
  fs::last_write_time(one, fs::last_write_time(one) + std::chrono::seconds(1));
  const auto after = pets.open().value().train;
  CHECK(after->fingerprint() == before->fingerprint());
  CHECK(after->fingerprint_of_files() != before->fingerprint_of_files());
  // Wherever it is looked at from.
  DataSection through = pets.data;
  fs::create_directory_symlink(pets.folder.path(), pets.at("link"));
  through.path = pets.at("link").string();
  CHECK(open_image_folder(through, "").value().train->fingerprint_of_files() ==
        after->fingerprint_of_files());
}

// A chunk, in front of the last one of a PNG.
Encoded with_chunk_behind(Encoded png, const std::string& type, const Encoded& data) {
  Encoded chunk = {0, 0, static_cast<std::uint8_t>(data.size() >> 8), static_cast<std::uint8_t>(data.size())};
  chunk.insert(chunk.end(), type.begin(), type.end());
  chunk.insert(chunk.end(), data.begin(), data.end());
  chunk.resize(chunk.size() + 4);  // a checksum that nobody looks at
  png.insert(png.end() - 12, chunk.begin(), chunk.end());
  return png;
}

TEST_CASE("a_png_may_say_behind_its_pixels_how_it_was_held") {
  const Pets pets;
  const int side = GENERATE(8, 200);  // in one piece with its head, and not
  const Encoded png = png_of(side, side, some_pixels(side, side, 3));
  const fs::path file = pets.at("train/cat/late.png");
  const auto orientation = [&](const Encoded& bytes) {
    put_picture(file, bytes);
    return read_picture_info(file).value().orientation;
  };
  const Encoded exif = exif_of(6);
  const Encoded tiff(exif.begin() + 6, exif.end());
  const Encoded late = with_chunk_behind(png, "eXIf", tiff);
  CHECK(orientation(png) == 1);
  CHECK(orientation(late) == 6);
  CHECK(orientation(with_chunk_behind(late, "tEXt", Encoded(5000, 'x'))) == 6);
  // A text that has the chunk's bytes in it, which lead nowhere.
  Encoded text = {0, 0, 0, 26, 'e', 'X', 'I', 'f'};
  text.insert(text.end(), tiff.begin(), tiff.end());
  text.resize(text.size() + 9);
  CHECK(orientation(with_chunk_behind(png, "tEXt", text)) == 1);
}

TEST_CASE("a_renderer_gives_its_memory_back") {
  const Encoded file = some_jpeg(400, 300, {.colours = JCS_CMYK});
  const PictureInfo info = read_picture_head(file).value().info;
  const Placement placement = evaluation_placement(info.shown(), {.size = 16, .resize = 20});
  Renderer renderer(DecodeKind::kFused);
  std::vector<float> first(3 * 16 * 16);
  std::vector<float> again(first.size());
  const Normalization plain = normalization_of(DataSection());
  REQUIRE(renderer.render(file, info, placement, 16, plain, first).is_ok());
  CHECK(renderer.bytes() > 8 * 300 * 4);  // a few decoded rows at least
  renderer.release();
  CHECK(renderer.bytes() == 0);
  REQUIRE(renderer.render(file, info, placement, 16, plain, again).is_ok());
  CHECK(again == first);
}

TEST_CASE("the_thinnest_picture_that_there_may_be_has_a_place") {
  const CropSection crop{.size = 4096, .resize = 8192};
  const Placement placement = evaluation_placement({kPictureSideMax, 1}, crop);
  CHECK(placement.resized == PictureSize{8192 * kPictureSideMax, 8192});
  CHECK(placement.left > 0);
}

TEST_CASE("where_the_data_cannot_be_written_the_index_goes_to_the_run_directory_which_may_be_new") {
  const Pets pets;
  const fs::path train = pets.at("train");
  fs::create_directories(train / kIndexName);  // no file can be made there, not by root either
  const fs::path other = pets.at("runs/new/run.index");
  CHECK(index_folder(train, other).value().heads_read == 8);
  CHECK(fs::is_regular_file(other));
  CHECK(index_folder(train, other).value().heads_read == 0);
  const fs::path nowhere = other / "no folder" / "run.index";
  CHECK_THAT(index_folder(train, nowhere).value().warning,
             Catch::StartsWith("the index of ") && Catch::Contains(nowhere.string()));
  CHECK_THAT(index_folder(train, "").value().warning, Catch::StartsWith("the index of "));
}

TEST_CASE("a_node_makes_the_run_directory_for_its_index_and_who_only_looks_at_the_data_does_not") {
  const Pets pets;
  for (const char* set : {"train", "test"}) fs::create_directories(pets.at(set) / kIndexName);
  RunConfig config;
  config.data = pets.data;
  config.run.out = pets.at("runs/new").string();
  REQUIRE(RunData::open(config, RunFolder::kAsItIs).is_ok());
  CHECK_FALSE(fs::exists(pets.at("runs")));
  REQUIRE(RunData::open(config, RunFolder::kMayBeMade).is_ok());
  CHECK(fs::is_regular_file(pets.at("runs/new/images-train.index")));
  CHECK(fs::is_regular_file(pets.at("runs/new/images-test.index")));
}

TEST_CASE("nodes_whose_pictures_differ_have_other_fingerprints") {
  const Pets pets;
  const std::uint64_t before = pets.open().value().train->fingerprint();
  CHECK(pets.open().value().train->fingerprint() == before);
  fs::remove(pets.at("train/dog/3.jpg"));
  CHECK(pets.open().value().train->fingerprint() != before);
}

}  // namespace
}  // namespace paceline
