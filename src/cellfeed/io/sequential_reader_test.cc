#include "cellfeed/io/sequential_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/io/memory_source.h"
#include "cellfeed/testing/faulty_byte_source.h"

namespace cellfeed::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<const ByteSource> source_of(const std::string& text) {
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return make_memory_source("a.txt", std::vector<std::byte>(bytes, bytes + text.size()));
}

std::string gzip(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string numbers(int n) {
  std::string text;
  for (int i = 0; i < n; ++i) text += std::to_string(i * 7919LL) + "\n";
  return text;
}

std::string read_all(std::shared_ptr<const ByteSource> source, std::size_t step) {
  SequentialReader reader(std::move(source));
  std::string text;
  std::vector<std::byte> part(step);
  for (;;) {
    const std::size_t n = reader.read(part);
    text.append(reinterpret_cast<const char*>(part.data()), n);
    if (n < step) return text;
  }
}

std::string read_error(const std::string& bytes) {
  try {
    read_all(source_of(bytes), 1000);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCorruptData);
    return error.what();
  }
  return "";
}

std::vector<std::string> lines_of(const std::string& text, std::size_t max_line_bytes = 100) {
  LineReader reader(source_of(text), max_line_bytes);
  std::vector<std::string> lines;
  while (const auto line = reader.next()) lines.emplace_back(*line);
  EXPECT_EQ(reader.number(), std::ssize(lines));
  return lines;
}

TEST(SequentialReader, PlainAndGzipGiveTheSameInAnySteps) {
  const std::string text = numbers(200'000);
  for (const std::size_t step : {std::size_t{1}, std::size_t{4096}, text.size(), text.size() + 1}) {
    const std::string some = step == 1 ? text.substr(0, 10'000) : text;
    EXPECT_EQ(read_all(source_of(some), step), some) << step;
    EXPECT_EQ(read_all(source_of(gzip(some)), step), some) << step;
  }
  EXPECT_EQ(read_all(source_of(""), 10), "");
  EXPECT_EQ(read_all(source_of(gzip("")), 10), "");
}

TEST(SequentialReader, StreamsOneAfterAnotherAreOneTextAndZerosAfterThemNothing) {
  const std::string a = numbers(50'000), b = numbers(3);
  EXPECT_EQ(read_all(source_of(gzip(a) + gzip("") + gzip(b)), 777), a + b);
  EXPECT_EQ(read_all(source_of(gzip(a) + std::string(600'000, '\0')), 777), a);
}

TEST(SequentialReader, DamageIsNamed) {
  const std::string whole = gzip(numbers(100'000));
  for (const std::size_t size : {std::size_t{3}, std::size_t{10}, whole.size() / 2,
                                 whole.size() - 9, whole.size() - 8, whole.size() - 1})
    EXPECT_THAT(read_error(whole.substr(0, size)), HasSubstr("truncated")) << size;
  EXPECT_THAT(read_error(whole + "x"), HasSubstr("not gzip"));
  std::string flipped = whole;
  flipped[flipped.size() - 5] ^= 1;
  EXPECT_THAT(read_error(flipped), HasSubstr("damaged gzip data"));
}

TEST(SequentialReader, PassesOnWhatTheSourceThrows) {
  const std::string text = gzip(numbers(1'000'000));
  const auto faulty = std::make_shared<testing::FaultyByteSource>(
      source_of(text), testing::Faults{.fail_at_offset = std::ssize(text) - 3});
  EXPECT_THROW(read_all(faulty, 1 << 20), Error);
}

TEST(LineReader, LinesEndAsOnAnySystem) {
  EXPECT_THAT(lines_of("a\nb\r\n\n\r\nc"), ElementsAre("a", "b", "", "", "c"));
  EXPECT_THAT(lines_of("\xEF\xBB\xBFid\n\xEF\xBB\xBF\n"), ElementsAre("id", "\xEF\xBB\xBF"));
  EXPECT_THAT(lines_of(""), ElementsAre());
  EXPECT_THAT(lines_of("\n"), ElementsAre(""));
}

TEST(LineReader, LinesAreWholeAcrossBuffers) {
  const std::string text = numbers(300'000);
  LineReader reader(source_of(gzip(text)), 100);
  std::string again;
  while (const auto line = reader.next()) again.append(*line).append("\n");
  EXPECT_EQ(again, text);
}

TEST(LineReader, ALineThatIsTooLongIsNamedBeforeItFillsMemory) {
  EXPECT_THAT(lines_of("x\n" + std::string(100, 'a') + "\r\ny", 100).size(), 3);
  for (const std::size_t n : {std::size_t{101}, std::size_t{5'000'000}})
    EXPECT_THROW(lines_of("x\n" + std::string(n, 'a'), 100), Error);
}

}  // namespace
// Lines at hand are taken together; blank ones, and the first behind them, come one by one.
TEST(LineReader, TakesTheLinesThatNextGives) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (int i = 0; i < 2000; ++i) {
      const auto kind = random() % (round % 3 == 0 ? 2000 : 40);
      text += kind == 0 ? "" : kind == 1 ? " 1 2 3" : kind == 2 ? "\t" : std::to_string(random());
      text += kind == 3 ? "\r\n" : "\n";
    }
    if (round % 2 == 0) text += "7 8 9";
    std::vector<std::pair<std::int64_t, std::string>> expected, found;
    LineReader one_by_one(source_of(text), 100);
    while (const auto line = one_by_one.next())
      expected.emplace_back(one_by_one.number(), std::string(*line));
    LineReader lines(source_of(text), 100);
    for (;;) {
      std::string taken;
      const std::int64_t most = 1 + static_cast<std::int64_t>(random() % 3000);
      const std::int64_t n = lines.take(most, taken);
      ASSERT_LE(n, most);
      ASSERT_EQ(n, std::ranges::count(taken, '\n'));
      std::istringstream stream(taken);
      std::string line;
      for (std::int64_t i = 0; std::getline(stream, line); ++i) {
        ASSERT_TRUE(!line.empty() && line[0] > ' ');
        if (line.ends_with('\r')) line.pop_back();
        found.emplace_back(lines.number() - n + 1 + i, line);
      }
      if (n > 0) continue;
      const auto next = lines.next();
      if (!next) break;
      found.emplace_back(lines.number(), std::string(*next));
    }
    ASSERT_EQ(found, expected);
  }
}

}  // namespace cellfeed::io
