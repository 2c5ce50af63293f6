#include "cellfeed/format/tenx/mtx_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/format/tenx/mtx_entries.h"
#include "cellfeed/io/memory_source.h"
#include "cellfeed/testing/faulty_byte_source.h"

namespace cellfeed::format::tenx {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const io::ByteSource> source_of(const std::string& text) {
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return io::make_memory_source("matrix.mtx", std::vector<std::byte>(bytes, bytes + text.size()));
}

constexpr std::int64_t kEntries = 5 * MtxText::kPieceLines + 17;

// Entry i is (i % 1000, i / 1000) with value i; every 300th follows a blank line.
std::string long_text() {
  std::string text = "%%MatrixMarket matrix coordinate integer general\n%\n1000 400 " +
                     std::to_string(kEntries) + "\n";
  for (std::int64_t i = 0; i < kEntries; ++i)
    text += fmt::format("{}{} {} {}\n", i % 300 == 299 ? " \n" : "", i % 1000 + 1, i / 1000 + 1, i);
  return text;
}

void expect_piece(const MtxText& text, std::int64_t piece) {
  Entries entries;
  const MtxLines lines = text.lines(piece);
  read_entries("a", text.header(), lines, {}, EntryParts::kAll, entries);
  const std::int64_t first = piece * MtxText::kPieceLines;
  ASSERT_EQ(entries.n, std::min(MtxText::kPieceLines, kEntries - first));
  const auto* values = reinterpret_cast<const std::int32_t*>(entries.values.data());
  for (std::int64_t i = 0; i < entries.n; ++i) {
    ASSERT_EQ(values[i], first + i);
    ASSERT_EQ(entries.columns.data()[i], (first + i) % 1000);
    ASSERT_EQ(entries.rows.data()[i], (first + i) / 1000);
    ASSERT_EQ(lines.number_of(i), 4 + first + i + (first + i + 1) / 300);
  }
}

TEST(MtxText, PiecesAreTheSameInEveryOrder) {
  const MtxText text(source_of(long_text()));
  ASSERT_EQ(text.n_pieces(), 6);
  std::vector<std::int64_t> order{0, 1, 2, 3, 4, 5};
  std::mt19937 random(1);
  for (int turn = 0; turn < 6; ++turn) {
    for (const std::int64_t piece : order) expect_piece(text, piece);
    std::shuffle(order.begin(), order.end(), random);
  }
}

TEST(MtxText, ThreadsShareOneReading) {
  const MtxText text(source_of(long_text()));
  for (int pass = 0; pass < 2; ++pass) {
    std::vector<std::jthread> threads;
    for (std::int64_t thread = 0; thread < 3; ++thread)
      threads.emplace_back([&, thread] {
        for (std::int64_t piece = thread; piece < text.n_pieces(); piece += 3)
          expect_piece(text, piece);
      });
  }
}

TEST(MtxText, AnErrorInTheMidstLeavesNoHalfReadPiece) {
  const std::string whole = long_text();
  const auto faulty = std::make_shared<testing::FaultyByteSource>(
      source_of(whole), testing::Faults{.fail_at_offset = std::ssize(whole) / 2});
  const MtxText text(faulty);
  for (int turn = 0; turn < 3; ++turn) {
    expect_piece(text, 0);
    EXPECT_THROW(text.lines(5), Error);
    expect_piece(text, 1);
  }
}

// Numbers as printf writes them, which strtod reads back; the short way to read lines and the long
// one take turns.
TEST(MtxEntries, NumbersAreThoseThatStrtodReads) {
  std::mt19937_64 random(3);
  std::vector<double> expected;
  std::string text;
  const auto number = [&](int digits) {
    std::string made = std::to_string(random() % 9 + 1);
    while (std::ssize(made) < digits) made += static_cast<char>('0' + random() % 10);
    return made;
  };
  constexpr int kLines = 20'000;
  for (int i = 0; i < kLines; ++i) {
    const std::string digits = number(static_cast<int>(1 + random() % 18));
    std::string value = digits;
    if (random() % 2 == 0) value = fmt::format("{}.{}", number(1 + i % 5), digits);
    if (random() % 4 == 0) value = fmt::format("0.{}", digits);
    if (random() % 8 == 0) value = fmt::format("-{}", value);
    if (random() % 8 == 0) value = fmt::format("{}e-{}", value, number(2));
    expected.push_back(std::strtod(value.c_str(), nullptr));
    const char* gap = random() % 8 == 0 ? " \t" : " ";
    text += fmt::format("{}{}{}{}{}{}", i % 1000 + 1, gap, 10'000'000 - i / 7, gap, value,
                        random() % 8 == 0 ? "\r\n" : "\n");
  }
  const MtxText file(source_of(fmt::format(
      "%%MatrixMarket matrix coordinate real general\n1000 10000000 {}\n{}", kLines, text)));
  Entries entries;
  read_entries("a", file.header(), file.lines(0), {}, EntryParts::kAll, entries);
  ASSERT_EQ(entries.n, kLines);
  for (int i = 0; i < kLines; ++i) {
    ASSERT_EQ(reinterpret_cast<const double*>(entries.values.data())[i], expected[i]) << i;
    ASSERT_EQ(entries.columns.data()[i], i % 1000);
    ASSERT_EQ(entries.rows.data()[i], 10'000'000u - 1 - static_cast<std::uint32_t>(i / 7));
  }
}

TEST(MtxEntries, OddLinesAreNamedAmongPlainOnes) {
  for (const char* odd :
       {"1 1", "0 1 1", "1 0 1", "4 1 1", "1 3 1", "1 1 1 1", "1 1 x", "1 1 2147483648",
        "12345678 1 1", "1 1 1.0", "1  1", "a 1 1", "1 1 +-1", "1:1:1", "1 1 1;"}) {
    std::string text = "%%MatrixMarket matrix coordinate integer general\n3 2 41\n";
    for (int i = 0; i < 20; ++i) text += "2 2 7\n";
    text += std::string(odd) + "\n";
    for (int i = 0; i < 20; ++i) text += "2 2 7\n";
    const MtxText file(source_of(text));
    Entries entries;
    try {
      read_entries("a", file.header(), file.lines(0), {}, EntryParts::kAll, entries);
      FAIL() << odd;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCorruptData);
      EXPECT_THAT(error.what(), HasSubstr("line 23")) << odd;
    }
  }
}

TEST(MtxText, WhatIsLeftOutIsNoEntry) {
  const MtxText text(
      source_of("%%MatrixMarket matrix coordinate pattern general\n3 2 4\n1 1\n2 1\n3 2\n2 2\n"));
  const std::vector<std::int32_t> columns{-1, 0, 1};
  for (const EntryParts parts : {EntryParts::kRows, EntryParts::kAll}) {
    Entries entries;
    read_entries("a", text.header(), text.lines(0), columns, parts, entries);
    ASSERT_EQ(entries.n, 3);
    EXPECT_EQ(std::vector<std::uint32_t>(entries.rows.data(), entries.rows.data() + 3),
              (std::vector<std::uint32_t>{0, 1, 1}));
    if (parts == EntryParts::kRows) continue;
    EXPECT_EQ(std::vector<std::int32_t>(entries.columns.data(), entries.columns.data() + 3),
              (std::vector<std::int32_t>{0, 1, 0}));
    EXPECT_EQ(reinterpret_cast<const std::int32_t*>(entries.values.data())[2], 1);
  }
}

}  // namespace
}  // namespace cellfeed::format::tenx
