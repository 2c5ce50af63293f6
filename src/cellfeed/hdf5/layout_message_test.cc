// Data Layout and Filter Pipeline messages, byte by byte.
#include "cellfeed/hdf5/layout_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cellfeed/hdf5/filter_pipeline_message.h"
#include "cellfeed/io/memory_source.h"

namespace cellfeed::hdf5 {
namespace {

using ::testing::ElementsAre;

class Message {
 public:
  explicit Message(std::initializer_list<int> values) : file_(make_source(values)) {}
  Cursor cursor() const { return Cursor(file_, 0, file_.size(), "message"); }

 private:
  static std::shared_ptr<const io::ByteSource> make_source(std::initializer_list<int> values) {
    std::vector<std::byte> bytes;
    for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
    return io::make_memory_source("m.h5", std::move(bytes));
  }
  FileBytes file_;
};

ErrorKind kind_of_error(const Message& message) {
  try {
    read_layout_message(message.cursor());
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << "no error";
  return ErrorKind::kInternal;
}

TEST(LayoutMessage, ChunksOfVersion3HaveATree) {
  const Message message(
      {3, 2, 3, 0x10, 0x20, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 5, 0, 0, 0, 4, 0, 0, 0});
  const auto layout = std::get<ChunkedLayout>(read_layout_message(message.cursor()));
  EXPECT_EQ(layout.index, ChunkIndexKind::kBtree1);
  EXPECT_EQ(layout.address, 0x2010u);
  EXPECT_THAT(layout.chunk_shape, ElementsAre(10, 5));
  EXPECT_EQ(layout.element_bytes, 4u);
  EXPECT_EQ(layout.chunk_bytes, 200u);
}

TEST(LayoutMessage, Versions4And5SayTheIndexAndHowWideSizesAre) {
  const Message four({4, 2, 0, 2, 1, 10, 8, 3, 10, 0xbf, 1, 0, 0, 0, 0, 0, 0});
  auto layout = std::get<ChunkedLayout>(read_layout_message(four.cursor()));
  EXPECT_EQ(layout.index, ChunkIndexKind::kFixedArray);
  EXPECT_EQ(layout.parameters.page_bits, 10);
  EXPECT_EQ(layout.address, 0x1bfu);
  EXPECT_EQ(layout.filtered_size_bytes, 2) << "80 bytes take one, and one more is kept";
  const Message five({5, 2, 0, 2, 1, 10, 8, 3, 10, 0xbf, 1, 0, 0, 0, 0, 0, 0});
  layout = std::get<ChunkedLayout>(read_layout_message(five.cursor()));
  EXPECT_EQ(layout.filtered_size_bytes, 8);
  const Message single(
      {4, 2, 3, 2, 1, 100, 8, 1, 77, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0xbf, 1, 0, 0, 0, 0, 0, 0});
  layout = std::get<ChunkedLayout>(read_layout_message(single.cursor()));
  ASSERT_TRUE(layout.single_chunk);
  EXPECT_EQ(layout.single_chunk->n_bytes, 77u);
  EXPECT_EQ(layout.single_chunk->filter_mask, 1u);
  EXPECT_TRUE(layout.edge_chunks_are_unfiltered);
}

TEST(LayoutMessage, CompactAndContiguousOfEveryVersion) {
  const Message compact({3, 0, 3, 0, 7, 8, 9});
  EXPECT_EQ(std::get<CompactLayout>(read_layout_message(compact.cursor())).elements.size(), 3u);
  const Message contiguous(
      {3, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 40, 0, 0, 0, 0, 0, 0, 0});
  const auto layout = std::get<ContiguousLayout>(read_layout_message(contiguous.cursor()));
  EXPECT_EQ(layout.address, kUndefinedAddress);
  EXPECT_EQ(layout.n_bytes, 40u);
  const Message old({1, 1, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 2, 0, 0, 0, 9, 0});
  const auto old_layout = std::get<CompactLayout>(read_layout_message(old.cursor()));
  EXPECT_EQ(old_layout.elements.size(), 2u);
}

TEST(LayoutMessage, DamageIsAnErrorAndLaterVersionsAreRefused) {
  const int huge = 0xff;
  EXPECT_EQ(kind_of_error(Message({0})), ErrorKind::kCorruptData);
  EXPECT_EQ(kind_of_error(Message({6, 2})), ErrorKind::kUnsupported);
  EXPECT_EQ(kind_of_error(Message({3, 9})), ErrorKind::kCorruptData);
  EXPECT_EQ(kind_of_error(Message({3, 0, 3, 0, 7})), ErrorKind::kCorruptData);
  EXPECT_EQ(kind_of_error(Message({4, 2, 0, 2, 1, 0, 8, 3, 10})), ErrorKind::kCorruptData)
      << "a chunk without elements";
  EXPECT_EQ(kind_of_error(
                Message({4,    2,    0,    3,    8,    huge, huge, huge, huge, huge, huge, 0, 0,  //
                         huge, huge, huge, huge, huge, huge, 0,    0,    8,    0,    0,    0, 0,
                         0,    0,    0,    3,    10})),
            ErrorKind::kCorruptData)
      << "more bytes than can be counted";
  EXPECT_EQ(kind_of_error(Message({4, 2, 0, 200, 1})), ErrorKind::kCorruptData);
  EXPECT_EQ(kind_of_error(Message({4, 2, 0, 2, 9})), ErrorKind::kCorruptData);
}

TEST(FilterPipelineMessage, ReadsBothVersions) {
  const Message two({2, 2,   1, 0, 1, 0, 1, 0, 4,   0,   0,   0,  //
                     0, 125, 4, 0, 0, 0, 0, 0, 'l', 'z', 'f', 0});
  const auto filters = read_filter_pipeline_message(two.cursor());
  ASSERT_EQ(filters.size(), 2u);
  EXPECT_EQ(filters[0].id, 1);
  EXPECT_TRUE(filters[0].is_optional);
  EXPECT_THAT(filters[0].client_values, ElementsAre(4u));
  EXPECT_EQ(filters[1].id, 32000);
  EXPECT_EQ(filters[1].name, "lzf");
  const Message one({1,   1,   0,   0,   0,   0,   0,   0, 1, 0, 8, 0, 0, 0, 1, 0,  //
                     'd', 'e', 'f', 'l', 'a', 't', 'e', 0, 6, 0, 0, 0, 0, 0, 0, 0});
  const auto old = read_filter_pipeline_message(one.cursor());
  ASSERT_EQ(old.size(), 1u);
  EXPECT_EQ(old[0].name, "deflate");
  EXPECT_FALSE(old[0].is_optional);
  EXPECT_THAT(old[0].client_values, ElementsAre(6u));
  EXPECT_THROW(read_filter_pipeline_message(Message({2, 33}).cursor()), Error);
  EXPECT_THROW(read_filter_pipeline_message(Message({2, 1, 1, 0, 1, 0, 255, 255, 4, 0}).cursor()),
               Error);
}

}  // namespace
}  // namespace cellfeed::hdf5
