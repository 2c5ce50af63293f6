// The .cells file at its limits: segments, counts that do not fit in 32 bits, and row tables that
// lie.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/cells_file_layout.h"
#include "cellfeed/format/shard/cells_file_writer.h"
#include "cellfeed/format/shard/packed_rows.h"
#include "cellfeed/format/shard/record/record_checksum.h"
#include "cellfeed/io/local_file.h"
#include "cellfeed/io/memory_source.h"
#include "cellfeed/testing/shard_fixture.h"
#include "cellfeed/testing/temp_dir.h"
#include "cellfeed/testing/thrown_error.h"

namespace cellfeed::format::shard {
namespace {

using cellfeed::testing::error_of;
using cellfeed::testing::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<std::byte> read_bytes(const std::string& path) {
  const auto source = io::open_local_file(path);
  std::vector<std::byte> bytes(static_cast<std::size_t>(source->size()));
  source->read(0, bytes);
  return bytes;
}

// Rows of one byte each, and a checksum, that claim `nnz` entries.
EncodedRows claim_rows(std::int64_t n, std::uint32_t nnz) {
  const auto size = static_cast<std::size_t>(n);
  return {.bytes = std::vector<std::uint8_t>(5 * size, 1),
          .lengths = std::vector<std::uint32_t>(size, 5),
          .nnz = std::vector<std::uint32_t>(size, nnz)};
}

void append(CellsFileWriter& writer, EncodedRows rows) { writer.append(rows); }

TEST(CellsFile, CountsMoreNonZerosThanFitIn32Bits) {
  TempDir dir;
  CellsFileWriter writer(dir.file("a.cells"), {.n_genes = 1 << 24});
  append(writer, claim_rows(300, kMaxRowNnz));
  writer.finish();
  const auto bytes = read_bytes(dir.file("a.cells"));
  const auto header = parse_header(std::span(bytes).first(kHeaderBytes), std::ssize(bytes), "a");
  EXPECT_EQ(header.nnz, 300 * kMaxRowNnz);
  EXPECT_GT(header.nnz, std::int64_t{1} << 32);
  const CellsFile file(io::make_memory_source("a", bytes), nullptr);
  EXPECT_EQ(file.locate(299).nnz, kMaxRowNnz);
}

TEST(CellsFile, RefusesACellWithMoreNonZerosThanItCanHold) {
  TempDir dir;
  CellsFileWriter writer(dir.file("a.cells"), {.n_genes = INT32_MAX});
  EXPECT_THAT(
      error_of([&] { append(writer, claim_rows(1, kMaxRowNnz + 1)); }, ErrorKind::kUnsupported),
      HasSubstr("16777216"));
}

TEST(CellsFile, RefusesRowsThatAreNotAsLongAsTheySay) {
  TempDir dir;
  for (const int change : {-1, 1}) {
    CellsFileWriter writer(dir.file("a.cells"), {.n_genes = 10});
    auto rows = claim_rows(3, 1);
    rows.bytes.resize(rows.bytes.size() + change);
    EXPECT_NE(error_of([&] { writer.append(rows); }, ErrorKind::kInvalidArgument), "no error");
  }
}

TEST(CellsFile, ClosesASegmentWithTheRecordThatFillsIt) {
  TempDir dir;
  CellsFileWriter writer(dir.file("a.cells"), {.n_genes = 10, .segment_bytes = 20});
  append(writer, claim_rows(3, 1));
  append(writer, claim_rows(7, 1));
  writer.finish();
  const auto bytes = read_bytes(dir.file("a.cells"));
  const auto header = parse_header(std::span(bytes).first(kHeaderBytes), std::ssize(bytes), "a");
  ASSERT_EQ(header.n_segments, 3);
  const std::uint64_t expected[3][4] = {{0, 20, 0, 4}, {20, 20, 4, 4}, {40, 10, 8, 2}};
  for (std::int64_t i = 0; i < 3; ++i) {
    SegmentEntry entry;
    std::memcpy(&entry, bytes.data() + header.segment_table_offset() + i * kSegmentEntryBytes,
                sizeof(entry));
    EXPECT_EQ(entry.offset, expected[i][0]);
    EXPECT_EQ(entry.length, expected[i][1]);
    EXPECT_EQ(entry.first_row, expected[i][2]);
    EXPECT_EQ(entry.n_rows, expected[i][3]);
    EXPECT_EQ(entry.checksum, checksum_bytes(std::span(bytes).subspan(kRecordsOffset + entry.offset,
                                                                      entry.length)));
  }
}

TEST(CellsFile, BelievesNoRowTable) {
  TempDir dir;
  CellsFileWriter writer(dir.file("a.cells"), {.n_genes = 10});
  append(writer, claim_rows(4, 2));
  writer.finish();
  const auto sound = read_bytes(dir.file("a.cells"));
  const auto header = parse_header(std::span(sound).first(kHeaderBytes), std::ssize(sound), "a");
  for (const std::uint64_t lie :
       {pack_row(21, 2), pack_row(3, 2), pack_row(kMaxRecordsBytes, 2), pack_row(10, 11)}) {
    auto bytes = sound;
    std::memcpy(bytes.data() + header.row_table_offset() + 2 * 8, &lie, sizeof(lie));
    const CellsFile file(io::make_memory_source("a", bytes), nullptr);
    const auto locate_all = [&] {
      for (std::int64_t row = 0; row < 4; ++row) file.locate(row);
    };
    EXPECT_THAT(error_of(locate_all, ErrorKind::kCorruptData),
                AllOf(HasSubstr("row table"), HasSubstr("row ")));
  }
}

TEST(CellsFile, RefusesEveryHeaderWhoseNumbersCannotBe) {
  TempDir dir;
  CellsFileWriter writer(dir.file("a.cells"), {.n_genes = 10});
  append(writer, claim_rows(4, 2));
  writer.finish();
  const auto sound = read_bytes(dir.file("a.cells"));
  for (const std::size_t offset : {12, 16, 24, 40, 52, 56, 72, 80, 88, 104, 120}) {
    for (const std::uint64_t lie :
         {std::uint64_t{0xfffffffe}, ~std::uint64_t{0}, std::uint64_t{1} << 63}) {
      std::vector<std::byte> bytes(sound.begin(), sound.begin() + kHeaderBytes);
      std::memcpy(bytes.data() + offset, &lie, sizeof(lie));
      const std::uint64_t checksum = checksum_bytes(std::span(bytes).first(kHeaderBytes - 8));
      std::memcpy(bytes.data() + kHeaderBytes - 8, &checksum, sizeof(checksum));
      EXPECT_THROW(parse_header(bytes, std::ssize(sound), "a"), Error) << offset << " " << lie;
    }
  }
}

TEST(EncodeRows, PlacesGenesWhereTheyAreAskedFor) {
  const std::vector<std::int64_t> indptr{0, 3, 3};
  const std::vector<std::int32_t> indices{0, 2, 3};
  const std::vector<float> values{1, 2, 3};
  const std::vector<std::int32_t> position{4, 0, -1, 1};
  const CsrSlice slice{.indptr = indptr, .indices = indices.data(), .values = values.data()};
  const auto rows = encode_rows(slice, {.n_genes = 5, .gene_position = position});
  ASSERT_EQ(rows.n_rows(), 2);
  EXPECT_EQ(rows.nnz, (std::vector<std::uint32_t>{2, 0}));
  std::vector<std::uint8_t> padded = rows.bytes;
  padded.resize(padded.size() + kRecordPaddingBytes);
  std::int32_t genes[2];
  float counts[2];
  decode_record({padded.data(), rows.lengths[0] - kRecordChecksumBytes}, 2, 5, DType::kF32,
                DType::kF32, Casting::kExact, genes, counts);
  EXPECT_THAT(genes, ::testing::ElementsAre(1, 4));
  EXPECT_THAT(counts, ::testing::ElementsAre(3, 1));
}

TEST(EncodeRows, RefusesWhatItCannotStore) {
  const std::vector<std::int64_t> indptr{0, 2};
  const std::vector<float> values{1.5F, 2};
  const auto encode = [&](std::vector<std::int32_t> indices, const RowEncoding& encoding) {
    const CsrSlice slice{.indptr = indptr, .indices = indices.data(), .values = values.data()};
    encode_rows(slice, encoding);
  };
  EXPECT_NE(error_of([&] { encode({1, 5}, {.n_genes = 5}); }, ErrorKind::kOutOfRange), "no error");
  EXPECT_NE(error_of([&] { encode({-1, 1}, {.n_genes = 5}); }, ErrorKind::kOutOfRange), "no error");
  EXPECT_THAT(error_of([&] { encode({2, 1}, {.n_genes = 5}); }, ErrorKind::kInvalidArgument),
              HasSubstr("sorted"));
  EXPECT_THAT(error_of([&] { encode({1, 1}, {.n_genes = 5}); }, ErrorKind::kInvalidArgument),
              HasSubstr("unique"));
  EXPECT_NE(error_of([&] { encode({0, 1}, {.n_genes = 5, .value_dtype = DType::kI32}); },
                     ErrorKind::kPrecision),
            "no error");
}

TEST(EncodeRows, GivesEachRowAsItIsByItself) {
  // First ones that say little of how long the others come out: of few entries, or of none.
  for (const int n_short : {0, 1, 4, 12}) {
    std::vector<std::int64_t> indptr{0};
    std::vector<std::int32_t> indices;
    std::vector<float> values;
    for (int row = 0; row < 12; ++row) {
      const int n = row < n_short ? row % 2 : 200 * row;
      for (int i = 0; i < n; ++i) {
        indices.push_back(3 * i + row);
        values.push_back(row % 3 == 0 ? 0.1F * static_cast<float>(i + 1) : 2.0F);
      }
      indptr.push_back(std::ssize(indices));
    }
    const auto slice_of = [&](std::int64_t begin, std::int64_t end) {
      return CsrSlice{
          .indptr = std::span(indptr).subspan(static_cast<std::size_t>(begin),
                                              static_cast<std::size_t>(end - begin + 1)),
          .indices = indices.data(),
          .values = values.data(),
          .dtype = DType::kF32};
    };
    const RowEncoding encoding{.n_genes = 10'000};
    const EncodedRows all = encode_rows(slice_of(0, 12), encoding);
    EncodedRows apart;
    for (std::int64_t row = 0; row < 12; ++row) {
      const EncodedRows one = encode_rows(slice_of(row, row + 1), encoding);
      apart.bytes.insert(apart.bytes.end(), one.bytes.begin(), one.bytes.end());
      apart.lengths.push_back(one.lengths.at(0));
    }
    EXPECT_EQ(all.bytes, apart.bytes) << n_short;
    EXPECT_EQ(all.lengths, apart.lengths) << n_short;
  }
}

TEST(EncodedRows, KeepNothingOfASpareButItsMemory) {
  const std::vector<std::int64_t> indptr = {0, 2, 2, 3};
  const std::vector<std::int32_t> indices = {1, 4, 0};
  const std::vector<float> values = {0.5F, 3.0F, -1.0F};
  const CsrSlice slice{
      .indptr = indptr, .indices = indices.data(), .values = values.data(), .dtype = DType::kF32};
  const EncodedRows fresh = encode_rows(slice, {.n_genes = 5});
  EncodedRows spare = claim_rows(100, 7);
  spare.not_finite.assign(100, 3);
  spare.row_library_sizes.assign(100, 2.5);
  const std::uint8_t* memory = spare.bytes.data();
  const EncodedRows reused = encode_rows(slice, {.n_genes = 5}, std::move(spare));
  EXPECT_EQ(reused.bytes.data(), memory);
  EXPECT_EQ(reused.bytes, fresh.bytes);
  EXPECT_EQ(reused.lengths, fresh.lengths);
  EXPECT_EQ(reused.nnz, fresh.nnz);
  EXPECT_EQ(reused.not_finite, fresh.not_finite);
  EXPECT_TRUE(reused.row_library_sizes.empty());
}

TEST(EncodedRows, CountsValuesThatAreNotFinite) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<std::int64_t> indptr = {0, 5, 7, 7};
  const std::vector<std::int32_t> indices = {0, 1, 2, 3, 4, 0, 2};
  const std::vector<double> values = {1, std::nan(""), infinity, -infinity, 1e308, 3, 4};
  CsrSlice slice;
  slice.indptr = indptr;
  slice.indices = indices.data();
  slice.values = values.data();
  slice.dtype = DType::kF64;
  const auto rows = encode_rows(slice, {.n_genes = 5, .value_dtype = DType::kF64});
  EXPECT_EQ(rows.not_finite, (std::vector<std::uint32_t>{3, 0, 0}));
}

}  // namespace
}  // namespace cellfeed::format::shard
