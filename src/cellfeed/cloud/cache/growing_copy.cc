#include "cellfeed/cloud/cache/growing_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <future>
#include <string_view>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/base/hash_text.h"
#include "cellfeed/cloud/cache/copies_under_way.h"
#include "cellfeed/io/atomic_file.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/local_file.h"
#include "cellfeed/io/running_checksum.h"
#include "cellfeed/io/small_file.h"

namespace cellfeed::cloud {
namespace {

constexpr std::string_view kJournalSuffix = ".parts";
constexpr std::int64_t kMostOfJournal = std::int64_t{1} << 26;

std::string journal_head(std::int64_t part_bytes) {
  return fmt::format("cellfeed parts 1 {}\n", part_bytes);
}

std::string checksum_line(std::span<const std::byte> part) {
  io::RunningChecksum checksum;
  checksum.add(part);
  return fmt::format("{:016x}\n", checksum.value());
}

// The whole lines after the head; none where it is not the journal of parts of this size.
std::vector<std::string> journal_lines(const io::Directory& directory, const std::string& name,
                                       std::int64_t part_bytes) {
  std::vector<std::string> lines;
  if (!directory.file_bytes(name)) return lines;
  const std::string text = io::read_small_file(directory.path_of(name), kMostOfJournal);
  const std::string head = journal_head(part_bytes);
  if (!text.starts_with(head)) return lines;
  for (std::size_t at = head.size(); at + kHashDigits < text.size(); at += kHashDigits + 1)
    lines.push_back(text.substr(at, kHashDigits + 1));
  return lines;
}

// The copy that a journal is of; empty where the name is no journal's.
std::string copy_of_journal(std::string_view name) {
  if (!name.starts_with('.') || !name.ends_with(kJournalSuffix)) return {};
  const std::string_view copy = name.substr(1, name.size() - 1 - kJournalSuffix.size());
  return is_copy_name(copy) ? std::string(copy) : std::string();
}

// Of copies whose names begin so, and of which no file is there that could be gone on with.
void remove_journals_alone(const io::Directory& directory, std::string_view prefix) {
  const std::vector<std::string> names = directory.names();
  for (const std::string& name : names) {
    const std::string copy = copy_of_journal(name);
    if (copy.empty() || !copy.starts_with(prefix)) continue;
    if (std::ranges::none_of(names, [&](const std::string& other) {
          return other.starts_with(copy) && io::is_temp_name(other);
        }))
      directory.remove(name);
  }
}

}  // namespace

GrowingCopy::GrowingCopy(io::FileTarget target, std::int64_t part_bytes,
                         std::optional<ContentChecksum> expected)
    : target_(std::move(target)),
      journal_name_(fmt::format(".{}{}", target_.name(), kJournalSuffix)),
      part_bytes_(part_bytes),
      file_(io::TempFile::take_over(target_)) {
  if (expected) check_.emplace(*std::move(expected));
  if (file_)
    take_parts();
  else
    file_ = std::make_unique<io::TempFile>(target_, io::OnExisting::kReplace);
}

GrowingCopy::~GrowingCopy() {
  if (file_ && size_ > 0) file_->leave();
}

void GrowingCopy::take_parts() {
  const auto source =
      io::open_local_file(file_->temp_path(), {.access = io::FileAccess::kPread, .threads = 1});
  std::vector<std::byte> bytes(static_cast<std::size_t>(std::min(part_bytes_, source->size())));
  for (std::string& line : journal_lines(target_.directory(), journal_name_, part_bytes_)) {
    const auto part = std::span(bytes).first(
        static_cast<std::size_t>(std::min(part_bytes_, source->size() - size_)));
    if (part.empty()) break;
    source->read(size_, part);
    if (checksum_line(part) != line) break;
    add(part);
    checksums_.push_back(std::move(line));
  }
  file_->truncate(size_);
}

void GrowingCopy::start_journal() {
  std::string text = journal_head(part_bytes_);
  for (const std::string& line : checksums_) text += line;
  io::write_small_file(target_.directory().path_of(journal_name_), text);
  journal_ = target_.directory().append_to(journal_name_);
}

void GrowingCopy::append(std::span<const std::byte> part) {
  if (size_ % part_bytes_ != 0 || std::ssize(part) > part_bytes_)
    throw_error(ErrorKind::kInternal, target_.path(), "a part of a copy is not where one begins");
  try {
    if (!journal_) start_journal();
    file_->write(size_, part);
    journal_->append(checksum_line(part));
  } catch (...) {
    file_.reset();  // removes it: a full disk has room again
    target_.directory().remove(journal_name_);
    throw;
  }
  add(part);
}

void GrowingCopy::add(std::span<const std::byte> part) {
  note_.add(part);
  if (check_) check_->add(part);
  size_ += std::ssize(part);
}

void GrowingCopy::require_expected(const std::string& of_object) {
  if (!check_ || check_->is_right()) return;
  file_.reset();  // removes it
  target_.directory().remove(journal_name_);
  throw_error(ErrorKind::kCorruptData, of_object,
              "the bytes that came are not those of the object, as the checksum says that the "
              "store tells ({}): they were damaged on the way, and none is kept; open it again",
              check_->name());
}

void GrowingCopy::publish(const std::string& of_object, const ObjectVersion& version) {
  require_expected(of_object);
  note_.write(target_.directory(), target_.name(), of_object, version,
              io::status_of(file_->temp_path()).modified_ns);
  file_->publish();
  file_.reset();
  target_.directory().remove(journal_name_);
}

void copy_rest(const io::ByteSource& remote, GrowingCopy& copy, std::int64_t part_bytes) {
  const CopyUnderWay shown(remote.path(), copy.size(), remote.size());
  std::array<std::vector<std::byte>, 2> buffers;
  std::future<void> written;  // the part before, while the next one is on its way; waits at its end
  const auto wait = [&] {
    if (!written.valid()) return;
    written.get();
    shown.note(copy.size());
  };
  std::int64_t offset = copy.size();
  for (std::size_t i = 0; offset < remote.size(); ++i) {
    std::vector<std::byte>& part = buffers[i % 2];
    part.resize(static_cast<std::size_t>(std::min(part_bytes, remote.size() - offset)));
    remote.read(offset, part);
    wait();
    written = std::async(std::launch::async, [&copy, &part] { copy.append(part); });
    offset += std::ssize(part);
  }
  wait();
}

void remove_other_versions(const io::Directory& directory, const std::string& of_object,
                           const std::string& but) {
  const std::string of_blocks = std::string(kBlocksPrefix) + of_object;
  for (const std::string& name : directory.names()) {
    const bool is_blocks = is_block_file_name(name);
    if (!is_blocks && !is_copy_name(name)) continue;
    const std::string version = is_blocks ? name.substr(kBlocksPrefix.size()) : name;
    if (version.starts_with(of_object) && version != but)
      remove_copy(directory, {.name = name, .of_object = {}, .is_blocks = is_blocks});
  }
  for (const std::string& prefix : {of_object, of_blocks}) (*directory).remove_leftovers(prefix);
  remove_journals_alone(directory, of_object);
}

void remove_unfinished(const io::Directory& directory) {
  (*directory).remove_leftovers("");
  remove_journals_alone(directory, "");
}

}  // namespace cellfeed::cloud
