// Cursor: fields in turn, and errors that name file, structure and offset.
#include "cellfeed/hdf5/cursor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "cellfeed/hdf5/checksum.h"
#include "cellfeed/io/memory_source.h"

namespace cellfeed::hdf5 {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

std::string damage(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCorruptData);
    EXPECT_EQ(error.path(), "some.h5");
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST(Cursor, ReadsLittleEndianFieldsInTurn) {
  const FileBytes file(io::make_memory_source(
      "some.h5", bytes_of({0xff, 'T', 'R', 1, 2, 3, 4, 5, 6, 7, 'a', 'b', 0, 9, 8, 7, 6})));
  Cursor cursor(file, 1, 16, "structure");
  cursor.expect_signature("TR");
  EXPECT_EQ(cursor.u8(), 1);
  EXPECT_EQ(cursor.u16(), 0x0302);
  EXPECT_EQ(cursor.u32(), 0x07060504u);
  EXPECT_EQ(cursor.text(), "ab");
  EXPECT_EQ(cursor.position(), 12u);
  EXPECT_EQ(cursor.remaining(), 4u);
  Cursor part = cursor.part(3, "part");
  EXPECT_EQ(part.address(), 13u);
  EXPECT_EQ(part.uint(3), 0x070809u);
  EXPECT_EQ(cursor.u8(), 6);
  cursor.seek(2);
  EXPECT_EQ(cursor.u8(), 1);
}

TEST(Cursor, NarrowAddressesThatAreAllOnesAreUndefined) {
  FileBytes file(io::make_memory_source(
      "some.h5", bytes_of({0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x10, 0x20, 0xff, 0x7f})));
  file.set_superblock(0, 4, 2);
  Cursor cursor(file, 0, 10, "structure");
  EXPECT_EQ(cursor.read_address(), kUndefinedAddress);
  EXPECT_EQ(cursor.read_length(), ~std::uint64_t{0});
  EXPECT_EQ(cursor.read_length(), 0x2010u);
  EXPECT_EQ(cursor.read_length(), 0x7fffu);
}

TEST(Cursor, ErrorsNameFileStructureAndOffset) {
  FileBytes file(io::make_memory_source("some.h5", std::vector<std::byte>(600)));
  file.set_superblock(512, 8, 8);
  Cursor cursor(file, 40, 8, "local heap");
  cursor.u32();
  EXPECT_THAT(damage([&] { cursor.u64(); }),
              HasSubstr("some.h5: damaged HDF5 file: local heap at offset 552: 8 bytes wanted at "
                        "its byte 4 of 8"));
  EXPECT_THAT(damage([&] { cursor.skip(~std::uint64_t{0}); }), HasSubstr("wanted"));
  EXPECT_THAT(damage([&] { cursor.seek(9); }), HasSubstr("wanted"));
  cursor.seek(0);
  EXPECT_THAT(damage([&] { cursor.expect_signature("HEAP"); }),
              HasSubstr("its signature is not 'HEAP'"));
  EXPECT_THAT(damage([&] { Cursor(file, 80, 9, "fractal heap header"); }),
              HasSubstr("fractal heap header at offset 592: it does not lie inside the file"));
  EXPECT_THAT(damage([&] { Cursor(file, kUndefinedAddress, 9, "link"); }),
              HasSubstr("its address is undefined"));
}

TEST(Cursor, TextWithoutItsEndIsAnError) {
  const FileBytes file(io::make_memory_source("some.h5", bytes_of({'a', 'b', 'c', 0})));
  Cursor cursor(file, 0, 3, "link name");
  EXPECT_THAT(damage([&] { cursor.text(); }), HasSubstr("final zero byte"));
}

TEST(Cursor, AWrongChecksumIsAnError) {
  auto bytes = bytes_of({1, 2, 3, 4, 5});
  const std::uint32_t sum = metadata_checksum(bytes);
  for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<std::byte>(sum >> (8 * i)));
  const FileBytes sound(io::make_memory_source("some.h5", bytes));
  Cursor cursor(sound, 0, 9, "object header");
  cursor.skip(5);
  cursor.expect_checksum();
  EXPECT_EQ(cursor.remaining(), 0u);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    auto damaged = bytes;
    damaged[i] ^= std::byte{0x10};
    const FileBytes file(io::make_memory_source("some.h5", damaged));
    const Cursor wrong(file, 0, 9, "object header");
    EXPECT_THAT(damage([&] { wrong.verify_checksum(5); }), HasSubstr("checksum does not match"));
  }
  EXPECT_THAT(damage([&] { cursor.verify_checksum(6); }), HasSubstr("checksum wanted"));
}

// The values that the algorithm's author prints for these texts, with initial value 0.
TEST(Checksum, IsLookup3) {
  const auto of = [](std::string_view text) {
    return metadata_checksum(std::as_bytes(std::span(text)));
  };
  EXPECT_EQ(of(""), 0xdeadbeefu);
  EXPECT_EQ(of("Four score and seven years ago"), 0x17770551u);
}

}  // namespace
}  // namespace cellfeed::hdf5
