// DatasetBytes and every chunk index against libhdf5: places of chunks, whole datasets, boxes.
#include "cellfeed/hdf5/dataset_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <cstring>
#include <numeric>
#include <random>

#include "cellfeed/base/error.h"
#include "cellfeed/io/local_file.h"
#include "cellfeed/io/memory_source.h"
#include "cellfeed/testing/counted_byte_source.h"
#include "cellfeed/testing/hdf5_oracle.h"
#include "cellfeed/testing/slow_byte_source.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::hdf5 {
namespace {

using cellfeed::testing::CountedByteSource;
using cellfeed::testing::OracleId;
using cellfeed::testing::TempDir;
using Shape = std::vector<hsize_t>;

// A dataset of int32 named "d" to be written by libhdf5.
struct Plan {
  H5F_libver_t low = H5F_LIBVER_EARLIEST;
  Shape shape{};
  Shape max_shape{};
  Shape chunk{};  // empty: contiguous
  std::vector<H5Z_filter_t> filters{};
  bool allocates_early = false;
  bool leaves_edges_raw = false;
  bool has_fill_value = false;
  double written = 1;          // share of the chunks
  bool masks_filters = false;  // some chunks skip a filter
  hsize_t user_block = 0;
};

std::uint64_t size_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::uint64_t{1}, std::multiplies<>());
}

class Written {
 public:
  Written(const std::string& path, const Plan& plan, unsigned seed)
      : random_(seed), plan_(plan), file_(create(path)), dataset_(make_dataset()) {
    if (plan_.chunk.empty())
      write_box(Shape(plan_.shape.size(), 0), plan_.shape);
    else
      write_chunks();
  }

 private:
  OracleId create(const std::string& path) const {
    const OracleId creation(H5Pcreate(H5P_FILE_CREATE));
    H5Pset_userblock(creation, plan_.user_block);
    const OracleId access(H5Pcreate(H5P_FILE_ACCESS));
    H5Pset_libver_bounds(access, plan_.low, H5F_LIBVER_LATEST);
    return OracleId(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation, access));
  }

  OracleId make_dataset() const {
    const int rank = static_cast<int>(plan_.shape.size());
    const OracleId space(H5Screate_simple(
        rank, plan_.shape.data(), plan_.max_shape.empty() ? nullptr : plan_.max_shape.data()));
    const OracleId properties(H5Pcreate(H5P_DATASET_CREATE));
    if (!plan_.chunk.empty()) H5Pset_chunk(properties, rank, plan_.chunk.data());
    if (plan_.leaves_edges_raw) H5Pset_chunk_opts(properties, H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS);
    if (plan_.allocates_early) H5Pset_alloc_time(properties, H5D_ALLOC_TIME_EARLY);
    for (const auto filter : plan_.filters) {
      if (filter == H5Z_FILTER_DEFLATE) H5Pset_deflate(properties, 4);
      if (filter == H5Z_FILTER_SHUFFLE) H5Pset_shuffle(properties);
      if (filter == H5Z_FILTER_FLETCHER32) H5Pset_fletcher32(properties);
    }
    const int fill = -77;
    if (plan_.has_fill_value) H5Pset_fill_value(properties, H5T_NATIVE_INT, &fill);
    return OracleId(
        H5Dcreate2(file_, "d", H5T_STD_I32LE, space, H5P_DEFAULT, properties, H5P_DEFAULT));
  }

  void write_box(const Shape& begin, const Shape& shape) {
    std::vector<int> values(size_of(shape));
    for (int& value : values) value = static_cast<int>(random_() % 1000);
    const OracleId space(H5Dget_space(dataset_));
    H5Sselect_hyperslab(space, H5S_SELECT_SET, begin.data(), nullptr, shape.data(), nullptr);
    const OracleId memory(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr));
    ASSERT_GE(H5Dwrite(dataset_, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, values.data()), 0);
  }

  void write_chunks() {
    Shape at(plan_.shape.size(), 0);
    while (true) {
      if (std::uniform_real_distribution<>(0, 1)(random_) < plan_.written) write_chunk(at);
      std::size_t d = at.size();
      while (d-- > 0) {
        at[d] += plan_.chunk[d];
        if (at[d] < plan_.shape[d]) break;
        at[d] = 0;
        if (d == 0) return;
      }
    }
  }

  void write_chunk(const Shape& at) {
    // All filters left out: the bytes are the elements.
    if (plan_.masks_filters && random_() % 3 == 0) {
      std::vector<int> values(size_of(plan_.chunk));
      for (int& value : values) value = static_cast<int>(random_());
      const auto mask = (1u << plan_.filters.size()) - 1;
      ASSERT_GE(
          H5Dwrite_chunk(dataset_, H5P_DEFAULT, mask, at.data(), values.size() * 4, values.data()),
          0);
      return;
    }
    Shape shape = plan_.chunk;
    for (std::size_t d = 0; d < at.size(); ++d)
      shape[d] = std::min(shape[d], plan_.shape[d] - at[d]);
    write_box(at, shape);
  }

  std::mt19937 random_;
  const Plan& plan_;
  OracleId file_;
  OracleId dataset_;
};

DatasetBytes open_d(std::shared_ptr<const io::ByteSource> source) {
  return DatasetBytes(File::open(std::move(source)).find("d")->dataset());
}

std::vector<std::byte> read_with_oracle(hid_t dataset, const Shape& begin, const Shape& shape) {
  std::vector<std::byte> out(size_of(shape) * 4);
  const OracleId space(H5Dget_space(dataset));
  H5Sselect_hyperslab(space, H5S_SELECT_SET, begin.data(), nullptr, shape.data(), nullptr);
  const OracleId memory(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr));
  EXPECT_GE(H5Dread(dataset, H5T_STD_I32LE, memory, space, H5P_DEFAULT, out.data()), 0);
  return out;
}

// libhdf5 1.10 reads any chunk, but does not say the places of all where an extensible array's
// unlimited dimension is not the first.
bool is_known_to_oracle(const DatasetBytes& ours) {
  return std::get<ChunkedLayout>(ours.dataset().layout()).index !=
             ChunkIndexKind::kExtensibleArray ||
         ours.chunk_index()->grid().max_shape().front() == kUnlimited;
}

void compare_places(hid_t dataset, const DatasetBytes& ours, const Plan& plan) {
  const ChunkGrid& grid = ours.chunk_index()->grid();
  std::vector<std::uint64_t> numbers(grid.n_chunks());
  std::iota(numbers.begin(), numbers.end(), std::uint64_t{0});
  std::shuffle(numbers.begin(), numbers.end(), std::mt19937(1));
  // libhdf5 walks the whole index for each question.
  numbers.resize(std::min<std::size_t>(numbers.size(), numbers.size() > 50'000 ? 3 : 300));
  std::vector<ChunkPlace> places(numbers.size());
  ours.chunk_index()->locate(numbers, places);
  std::vector<std::uint64_t> at(grid.rank());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    grid.coordinates(numbers[i], at);
    Shape begin(at.begin(), at.end());
    for (std::size_t d = 0; d < begin.size(); ++d) begin[d] *= plan.chunk[d];
    haddr_t address = HADDR_UNDEF;
    hsize_t size = 0;
    unsigned mask = 0;
    ASSERT_GE(H5Dget_chunk_info_by_coord(dataset, begin.data(), &mask, &address, &size), 0);
    ASSERT_EQ(places[i].is_written, address != HADDR_UNDEF) << numbers[i];
    if (!places[i].is_written) continue;
    EXPECT_EQ(places[i].offset, address + plan.user_block);
    EXPECT_EQ(places[i].n_bytes, size);
    if (!(plan.leaves_edges_raw && grid.is_partial(at)) && !plan.filters.empty()) {
      EXPECT_EQ(places[i].skipped, mask);
    }
  }
}

void compare(const std::string& path, const Plan& plan, unsigned seed) {
  const OracleId file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  const OracleId dataset(H5Dopen2(file, "d", H5P_DEFAULT));
  ASSERT_GE(hid_t{dataset}, 0);
  const std::shared_ptr<const io::ByteSource> mapped = io::open_local_file(path);
  const auto paged = std::make_shared<CountedByteSource>(mapped);
  std::mt19937 random(seed);
  // libhdf5 takes seconds for as many chunks as fill an array's pages.
  const auto whole = read_with_oracle(dataset, Shape(plan.shape.size(), 0), plan.shape);
  const int n_boxes = whole.size() > 100'000 ? 0 : 5;
  for (const auto& source : {mapped, std::shared_ptr<const io::ByteSource>(paged)}) {
    const DatasetBytes ours = open_d(source);
    if (!plan.chunk.empty() && is_known_to_oracle(ours)) compare_places(dataset, ours, plan);
    EXPECT_EQ(ours.read_all(1 << 24), whole);
    for (int round = 0; round < n_boxes; ++round) {
      Shape begin, shape;
      for (const hsize_t extent : plan.shape) {
        begin.push_back(random() % extent);
        shape.push_back(1 + random() % (extent - begin.back()));
      }
      std::vector<std::byte> out(size_of(shape) * 4);
      ours.read({{begin.begin(), begin.end()}, {shape.begin(), shape.end()}}, out);
      EXPECT_EQ(out, read_with_oracle(dataset, begin, shape));
    }
  }
}

struct Case {
  const char* name;
  ChunkIndexKind kind;
  Plan plan;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

constexpr auto kLatest = H5F_LIBVER_LATEST;
const std::vector<H5Z_filter_t> kGzip = {H5Z_FILTER_SHUFFLE, H5Z_FILTER_DEFLATE};
const std::vector<H5Z_filter_t> kChecked = {H5Z_FILTER_DEFLATE, H5Z_FILTER_FLETCHER32};
constexpr hsize_t kNoEnd = H5S_UNLIMITED;

class EveryIndex : public ::testing::TestWithParam<Case> {};

TEST_P(EveryIndex, FindsWhatLibhdf5Finds) {
  const TempDir dir;
  const std::string path = dir.file("file.h5");
  const Plan& plan = GetParam().plan;
  { const Written written(path, plan, 1); }
  const auto ours = open_d(io::open_local_file(path));
  ASSERT_EQ(std::get<ChunkedLayout>(ours.dataset().layout()).index, GetParam().kind);
  compare(path, plan, 2);
}

INSTANTIATE_TEST_SUITE_P(
    All, EveryIndex,
    ::testing::Values(
        Case{"btree1", ChunkIndexKind::kBtree1, {.shape = {1000}, .chunk = {7}}},
        Case{"btree1_deep",
             ChunkIndexKind::kBtree1,
             {.shape = {9000}, .chunk = {1}, .filters = {H5Z_FILTER_SHUFFLE}, .written = 0.7}},
        Case{"btree1_gzip_3d",
             ChunkIndexKind::kBtree1,
             {.shape = {13, 9, 20},
              .max_shape = {kNoEnd, 9, kNoEnd},
              .chunk = {3, 4, 7},
              .filters = kGzip,
              .has_fill_value = true,
              .written = 0.6,
              .masks_filters = true}},
        Case{"btree1_user_block",
             ChunkIndexKind::kBtree1,
             {.shape = {50, 6}, .chunk = {4, 4}, .filters = kChecked, .user_block = 1024}},
        Case{"single",
             ChunkIndexKind::kSingleChunk,
             {.low = kLatest, .shape = {40, 3}, .chunk = {40, 3}}},
        Case{"single_gzip",
             ChunkIndexKind::kSingleChunk,
             {.low = kLatest, .shape = {40}, .chunk = {40}, .filters = kGzip}},
        Case{"single_never_written",
             ChunkIndexKind::kSingleChunk,
             {.low = kLatest,
              .shape = {40},
              .chunk = {40},
              .filters = kGzip,
              .has_fill_value = true,
              .written = 0}},
        Case{"implicit",
             ChunkIndexKind::kImplicit,
             {.low = kLatest,
              .shape = {50, 7},
              .chunk = {8, 3},
              .allocates_early = true,
              .has_fill_value = true,
              .written = 0.5,
              .user_block = 512}},
        Case{"implicit_may_grow",
             ChunkIndexKind::kImplicit,
             {.low = kLatest,
              .shape = {20, 7},
              .max_shape = {20, 30},
              .chunk = {8, 3},
              .allocates_early = true}},
        Case{"fixed_array",
             ChunkIndexKind::kFixedArray,
             {.low = kLatest, .shape = {500}, .chunk = {7}, .written = 0.5}},
        Case{"fixed_array_gzip",
             ChunkIndexKind::kFixedArray,
             {.low = kLatest,
              .shape = {21, 10},
              .max_shape = {21, 40},
              .chunk = {4, 3},
              .filters = kChecked,
              .written = 0.8,
              .masks_filters = true,
              .user_block = 512}},
        Case{"fixed_array_raw_edges",
             ChunkIndexKind::kFixedArray,
             {.low = kLatest,
              .shape = {21, 10},
              .chunk = {4, 3},
              .filters = kGzip,
              .leaves_edges_raw = true}},
        Case{"fixed_array_paged",
             ChunkIndexKind::kFixedArray,
             {.low = kLatest, .shape = {2500}, .chunk = {1}, .filters = kGzip}},
        Case{"fixed_array_paged_holes",
             ChunkIndexKind::kFixedArray,
             {.low = kLatest, .shape = {20000}, .chunk = {2}, .written = 0.0005}},
        Case{
            "extensible_array",
            ChunkIndexKind::kExtensibleArray,
            {.low = kLatest, .shape = {1300}, .max_shape = {kNoEnd}, .chunk = {3}, .written = 0.7}},
        Case{"extensible_array_gzip_2nd",
             ChunkIndexKind::kExtensibleArray,
             {.low = kLatest,
              .shape = {10, 300},
              .max_shape = {13, kNoEnd},
              .chunk = {4, 5},
              .filters = kGzip,
              .has_fill_value = true,
              .written = 0.8,
              .masks_filters = true,
              .user_block = 512}},
        Case{"extensible_array_raw_edges",
             ChunkIndexKind::kExtensibleArray,
             {.low = kLatest,
              .shape = {33, 10},
              .max_shape = {kNoEnd, 10},
              .chunk = {4, 3},
              .filters = kChecked,
              .leaves_edges_raw = true}},
        Case{"extensible_array_paged_holes",
             ChunkIndexKind::kExtensibleArray,
             {.low = kLatest,
              .shape = {300000},
              .max_shape = {kNoEnd},
              .chunk = {2},
              .written = 0.0006}},
        Case{"extensible_array_paged_gzip",
             ChunkIndexKind::kExtensibleArray,
             {.low = kLatest,
              .shape = {300000},
              .max_shape = {kNoEnd},
              .chunk = {2},
              .filters = kGzip,
              .written = 0.001}},
        Case{"btree2",
             ChunkIndexKind::kBtree2,
             {.low = kLatest,
              .shape = {90, 70},
              .max_shape = {kNoEnd, kNoEnd},
              .chunk = {4, 3},
              .written = 0.8}},
        Case{"btree2_deep_gzip",
             ChunkIndexKind::kBtree2,
             {.low = kLatest,
              .shape = {130, 90},
              .max_shape = {kNoEnd, kNoEnd},
              .chunk = {1, 2},
              .filters = kGzip,
              .written = 0.9}},
        Case{"btree2_3d",
             ChunkIndexKind::kBtree2,
             {.low = kLatest,
              .shape = {20, 12, 9},
              .max_shape = {kNoEnd, 12, kNoEnd},
              .chunk = {3, 5, 2},
              .filters = kChecked,
              .leaves_edges_raw = true,
              .has_fill_value = true,
              .written = 0.7,
              .masks_filters = false,
              .user_block = 512}}),
    [](const auto& info) { return info.param.name; });

TEST(DatasetBytes, ReadsContiguousBoxesOfEveryRank) {
  const TempDir dir;
  for (const Shape& shape : {Shape{100}, Shape{20, 30}, Shape{5, 6, 7}, Shape{3, 4, 5, 6}}) {
    for (const hsize_t user_block : {0, 512}) {
      const Plan plan{.shape = shape, .user_block = user_block};
      { const Written written(dir.file("file.h5"), plan, 1); }
      compare(dir.file("file.h5"), plan, 3);
    }
  }
}

TEST(DatasetBytes, ReadsRandomDatasets) {
  const TempDir dir;
  std::mt19937 random(7);
  for (unsigned round = 0; round < 150; ++round) {
    Plan plan{.low = random() % 2 == 0 ? kLatest : H5F_LIBVER_EARLIEST};
    for (auto rank = 1 + random() % 4; rank > 0; --rank) {
      plan.shape.push_back(1 + random() % 12);
      plan.chunk.push_back(1 + random() % 5);
      const auto growth = random() % 3;
      plan.max_shape.push_back(growth == 0 ? kNoEnd : plan.shape.back() + (growth - 1) * 9);
      if (plan.max_shape.back() != kNoEnd)
        plan.chunk.back() = std::min(plan.chunk.back(), plan.max_shape.back());
    }
    if (random() % 2 == 0) plan.filters.push_back(H5Z_FILTER_SHUFFLE);
    if (random() % 2 == 0) plan.filters.push_back(H5Z_FILTER_DEFLATE);
    if (random() % 4 == 0) plan.filters.push_back(H5Z_FILTER_FLETCHER32);
    plan.allocates_early = random() % 4 == 0;
    plan.leaves_edges_raw = plan.low == kLatest && random() % 4 == 0;
    plan.has_fill_value = random() % 2 == 0;
    plan.written = std::uniform_real_distribution<>(0, 1.2)(random);
    plan.masks_filters = !plan.filters.empty() && !plan.leaves_edges_raw && random() % 3 == 0;
    SCOPED_TRACE(round);
    { const Written written(dir.file("file.h5"), plan, round); }
    compare(dir.file("file.h5"), plan, round);
  }
}

// A store that answers after 30 ms should be asked a few times, however many chunks are sought.
TEST(ChunkIndex, ManyLookUpsTakeAFewRoundTrips) {
  const TempDir dir;
  const std::string path = dir.file("file.h5");
  for (const Plan& plan :
       {Plan{.shape = {20000}, .chunk = {1}}, Plan{.low = kLatest, .shape = {20000}, .chunk = {1}},
        Plan{.low = kLatest, .shape = {20000}, .max_shape = {kNoEnd}, .chunk = {1}},
        Plan{
            .low = kLatest, .shape = {200, 100}, .max_shape = {kNoEnd, kNoEnd}, .chunk = {1, 1}}}) {
    {
      const Written written(path, plan, 1);
    }
    const auto counted = std::make_shared<CountedByteSource>(io::open_local_file(path));
    const DatasetBytes ours = open_d(counted);
    std::vector<std::uint64_t> numbers;
    for (std::uint64_t i = 0; i < 90; ++i) numbers.push_back(i * 222);
    std::vector<ChunkPlace> places(numbers.size());
    counted->round_trips = 0;
    ours.chunk_index()->locate(numbers, places);
    EXPECT_LE(counted->round_trips, 4);
    for (const ChunkPlace& place : places) EXPECT_TRUE(place.is_written);
  }
}

TEST(ChunkIndex, ReadsThroughASlowSource) {
  const TempDir dir;
  const std::string path = dir.file("file.h5");
  const Plan plan{
      .low = kLatest, .shape = {3000}, .max_shape = {kNoEnd}, .chunk = {7}, .filters = kGzip};
  { const Written written(path, plan, 1); }
  const std::shared_ptr<const io::ByteSource> mapped = io::open_local_file(path);
  const auto slow = std::make_shared<cellfeed::testing::SlowByteSource>(
      mapped, cellfeed::testing::SlowOptions{.max_latency = std::chrono::microseconds(50),
                                             .max_piece = 1000});
  EXPECT_EQ(open_d(slow).read_all(1 << 20), open_d(mapped).read_all(1 << 20));
}

// The second child of the root becomes the first: its own chunks would read as never written.
TEST(ChunkIndex, ATreeThatMeetsANodeTwiceIsDamaged) {
  const TempDir dir;
  const std::string path = dir.file("file.h5");
  const Plan plan{.shape = {9000}, .chunk = {1}};
  { const Written written(path, plan, 1); }
  const auto source = io::open_local_file(path);
  std::vector<std::byte> bytes(static_cast<std::size_t>(source->size()));
  source->read(0, bytes);
  const auto sound = open_d(io::make_memory_source(path, bytes));
  EXPECT_EQ(sound.read_all(1 << 20).size(), 36000u);
  const auto root = std::get<ChunkedLayout>(sound.dataset().layout()).address;
  ASSERT_GT(bytes[root + 5], std::byte{0});  // its level
  constexpr std::size_t kHeader = 24, kKey = 24, kStep = 32;
  std::byte* const children = bytes.data() + root + kHeader + kKey;
  std::memcpy(children + kStep, children, 8);
  const auto damaged = open_d(io::make_memory_source(path, bytes));
  std::vector<std::uint64_t> numbers(9000);
  std::iota(numbers.begin(), numbers.end(), std::uint64_t{0});
  std::vector<ChunkPlace> places(numbers.size());
  EXPECT_THROW(damaged.chunk_index()->locate(numbers, places), Error);
}

// Every byte of where a key says that its chunk begins, in a tree whose chunks are all there.
TEST(ChunkIndex, ADamagedKeyOfATreeIsAnError) {
  const TempDir dir;
  const std::string path = dir.file("file.h5");
  constexpr std::size_t kChunks = 20;
  { const Written written(path, {.shape = {2 * kChunks}, .chunk = {2}}, 1); }
  const auto source = io::open_local_file(path);
  std::vector<std::byte> sound(static_cast<std::size_t>(source->size()));
  source->read(0, sound);
  const auto dataset = open_d(io::make_memory_source(path, sound));
  const auto root = std::get<ChunkedLayout>(dataset.dataset().layout()).address;
  ASSERT_EQ(sound[root + 5], std::byte{0});  // its level
  constexpr std::size_t kHeader = 24, kSizeAndMask = 8, kBegins = 16, kStep = 32;
  for (std::size_t key = 0; key < kChunks; ++key)
    for (std::size_t at = 0; at < kBegins; ++at)
      for (const int change : {0x01, 0x02, 0x80, 0xff}) {
        auto bytes = sound;
        bytes[root + kHeader + key * kStep + kSizeAndMask + at] ^= static_cast<std::byte>(change);
        const auto damaged = open_d(io::make_memory_source(path, std::move(bytes)));
        EXPECT_THROW(damaged.read_all(1 << 20), Error) << key << " " << at << " " << change;
      }
  auto bytes = sound;
  std::memset(bytes.data() + root + kHeader + kSizeAndMask + kBegins, 0xff, 8);
  EXPECT_THROW(open_d(io::make_memory_source(path, std::move(bytes))).read_all(1 << 20), Error);
}

// Bytes of one structure are damaged one after another: what is read then is right or an error.
TEST(ChunkIndex, DamageIsAnErrorOrDoesNotMatter) {
  const TempDir dir;
  const std::string path = dir.file("file.h5");
  for (const Plan& plan : {Plan{.low = kLatest, .shape = {60}, .chunk = {2}, .filters = kChecked},
                           Plan{.low = kLatest, .shape = {2300}, .chunk = {1}, .filters = kChecked},
                           Plan{.low = kLatest,
                                .shape = {100},
                                .max_shape = {kNoEnd},
                                .chunk = {2},
                                .filters = kChecked},
                           Plan{.low = kLatest,
                                .shape = {20, 9},
                                .max_shape = {kNoEnd, kNoEnd},
                                .chunk = {4, 3},
                                .filters = kChecked}}) {
    {
      const Written written(path, plan, 1);
    }
    const auto source = io::open_local_file(path);
    std::vector<std::byte> sound(static_cast<std::size_t>(source->size()));
    source->read(0, sound);
    const auto expected = open_d(io::make_memory_source(path, sound)).read_all(1 << 20);
    std::mt19937 random(5);
    int n_errors = 0;
    for (int round = 0; round < 400; ++round) {
      auto bytes = sound;
      bytes[random() % bytes.size()] ^= static_cast<std::byte>(1 + random() % 255);
      try {
        EXPECT_EQ(open_d(io::make_memory_source(path, std::move(bytes))).read_all(1 << 20),
                  expected);
      } catch (const Error& error) {
        EXPECT_NE(error.kind(), ErrorKind::kInternal) << error.what();
        ++n_errors;
      }
    }
    EXPECT_GT(n_errors, 100);
  }
}

}  // namespace
}  // namespace cellfeed::hdf5
