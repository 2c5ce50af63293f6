// Conformance suite for FileSystem. A fixture says where to begin:
//
//   struct X {
//     std::string root() const;  // a directory that is there and empty; "": none here, skip
//     // Who has opened a file reads it after another has taken its name; else an error is thrown.
//     static constexpr bool kKeepsWhatIsOpen = true;
//   };
//   INSTANTIATE_TYPED_TEST_SUITE_P(X, FileSystemConformance, X);
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/io/atomic_file.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/small_file.h"

namespace cellfeed::testing {

template <typename Fixture>
class FileSystemConformance : public ::testing::Test {
 protected:
  void SetUp() override {
    if (fixture_.root().empty()) GTEST_SKIP() << "there is no such file system here";
  }
  std::string at(std::string_view name) const { return fixture_.root() + "/" + std::string(name); }

  Fixture fixture_;
};

inline std::span<const std::byte> bytes_of_text(std::string_view text) {
  return std::as_bytes(std::span(text));
}

template <typename Call>
ErrorKind kind_thrown_by(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_FALSE(std::string(error.what()).empty());
    return error.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorKind::kInternal;
}

TYPED_TEST_SUITE_P(FileSystemConformance);

TYPED_TEST_P(FileSystemConformance, WhatIsNotThereIsAnAnswer) {
  EXPECT_FALSE(io::exists(this->at("absent")));
  EXPECT_FALSE(io::exists(this->at("absent/below")));
  EXPECT_EQ(kind_thrown_by([&] { io::open_file(this->at("absent")); }), ErrorKind::kNotFound);
  EXPECT_EQ(kind_thrown_by([&] { io::Directory(this->at("absent")); }), ErrorKind::kNotFound);
  EXPECT_EQ(io::file_system_of(this->at("absent")).name_kind(this->at("absent")),
            io::NameKind::kFree);
  io::remove(this->at("absent"));
}

TYPED_TEST_P(FileSystemConformance, AFileIsReadAsItWasWritten) {
  io::write_small_file(this->at("a"), "some bytes");
  const io::PathStatus status = io::status_of(this->at("a"));
  EXPECT_TRUE(status.is_file());
  EXPECT_EQ(status.size, 10);
  const auto source = io::open_file(this->at("a"));
  std::string found(5, '\0');
  source->read(5, std::as_writable_bytes(std::span(found)));
  EXPECT_EQ(found, "bytes");
  EXPECT_TRUE(source->is_unchanged());
  EXPECT_EQ(kind_thrown_by([&] { source->read(6, std::as_writable_bytes(std::span(found))); }),
            ErrorKind::kCorruptData);
  EXPECT_EQ(io::read_small_file(this->at("a"), 10), "some bytes");
  EXPECT_EQ(kind_thrown_by([&] { io::read_small_file(this->at("a"), 9); }),
            ErrorKind::kCorruptData);
}

TYPED_TEST_P(FileSystemConformance, AnOpenFileIsNotTheOneThatTakesItsName) {
  io::write_small_file(this->at("a"), "before");
  const auto source = io::open_file(this->at("a"));
  const io::PathStatus before = io::status_of(this->at("a"));
  io::write_small_file(this->at("a"), "after!");
  std::string found(6, '\0');
  const auto read = [&] { source->read(0, std::as_writable_bytes(std::span(found))); };
  if (TypeParam::kKeepsWhatIsOpen) {
    read();
    EXPECT_EQ(found, "before");
  } else {
    EXPECT_EQ(kind_thrown_by(read), ErrorKind::kCorruptData);
  }
  const io::PathStatus after = io::status_of(this->at("a"));
  EXPECT_NE(std::pair(before.device, before.inode), std::pair(after.device, after.inode));
}

TYPED_TEST_P(FileSystemConformance, AFileAppearsWholeOrNotAtAll) {
  const io::FileTarget target(io::Directory(this->fixture_.root()), "a");
  {
    io::AtomicFile file(target, io::OnExisting::kRefuse, 4);
    file.append(bytes_of_text("0123456789"));
    file.overwrite(2, bytes_of_text("xy"));
    EXPECT_FALSE(io::exists(this->at("a")));
  }
  EXPECT_FALSE(io::exists(this->at("a")));
  io::AtomicFile file(target, io::OnExisting::kRefuse, 4);
  file.append(bytes_of_text("0123456789"));
  file.overwrite(2, bytes_of_text("xy"));
  file.append(bytes_of_text("!"));
  file.commit();
  EXPECT_EQ(io::read_small_file(this->at("a"), 100), "01xy456789!");
  EXPECT_EQ(io::Directory(this->fixture_.root()).names(), std::vector<std::string>{"a"});
}

TYPED_TEST_P(FileSystemConformance, AFileTakesWhatALocalOneHolds) {
  const io::Directory directory(this->fixture_.root());
  const io::Directory local = io::scratch_directory(directory);
  io::TempFile held(io::FileTarget(local, "cellfeed_held"), io::OnExisting::kReplace);
  const std::string content = std::string(3 << 20, 'x') + "end, and what is past it";
  held.write(0, bytes_of_text(content));
  const auto bytes = std::int64_t{3 << 20} + 3;
  const auto file = (*directory).create("taken", io::OnExisting::kRefuse);
  file->take(held.fd(), bytes);
  EXPECT_FALSE(io::exists(this->at("taken")));
  file->publish();
  EXPECT_EQ(io::read_small_file(this->at("taken"), bytes), content.substr(0, bytes));
  const auto shorter = (*directory).create("shorter", io::OnExisting::kRefuse);
  EXPECT_EQ(kind_thrown_by([&] {
              shorter->take(held.fd(), std::ssize(content) + 1);
              shorter->publish();
            }),
            ErrorKind::kIo);
  EXPECT_FALSE(io::exists(this->at("shorter")));
}

TYPED_TEST_P(FileSystemConformance, WhatIsThereIsReplacedWhereThatWasAskedFor) {
  io::write_small_file(this->at("a"), "old");
  const io::FileTarget target(io::Directory(this->fixture_.root()), "a");
  EXPECT_EQ(kind_thrown_by([&] { io::AtomicFile(target, io::OnExisting::kRefuse); }),
            ErrorKind::kAlreadyExists);
  io::AtomicFile late(target.with_suffix("2"), io::OnExisting::kRefuse);
  io::write_small_file(this->at("a2"), "of another");
  EXPECT_EQ(kind_thrown_by([&] { late.commit(); }), ErrorKind::kAlreadyExists);
  EXPECT_EQ(io::read_small_file(this->at("a2"), 100), "of another");
  io::AtomicFile file(target, io::OnExisting::kReplace);
  file.append(bytes_of_text("new"));
  EXPECT_EQ(io::read_small_file(this->at("a"), 100), "old");
  file.commit();
  EXPECT_EQ(io::read_small_file(this->at("a"), 100), "new");
}

TYPED_TEST_P(FileSystemConformance, DirectoriesAreMadeListedAndRemoved) {
  io::make_directories(this->at("a/b"));
  io::make_directories(this->at("a/b"));
  EXPECT_TRUE(io::is_directory(this->at("a")));
  EXPECT_TRUE(io::is_directory(this->at("a/b/")));
  io::write_small_file(this->at("a/2"), "22");
  io::write_small_file(this->at("a/10"), "1");
  const io::Directory directory(this->at("a"));
  EXPECT_EQ(directory.names(), (std::vector<std::string>{"10", "2", "b"}));
  EXPECT_EQ(directory.file_bytes("2"), 2);
  EXPECT_EQ(directory.file_bytes("b"), std::nullopt);
  EXPECT_EQ(directory.file_bytes("absent"), std::nullopt);
  EXPECT_EQ(directory.path_of("2"), this->at("a/2"));
  directory.remove("2");
  directory.remove("2");
  EXPECT_FALSE(io::exists(this->at("a/2")));
  EXPECT_EQ(kind_thrown_by([&] { io::make_directories(this->at("a/10")); }),
            ErrorKind::kAlreadyExists);
}

TYPED_TEST_P(FileSystemConformance, AllFilesBelowAFolderAreVisited) {
  io::make_directories(this->at("a/b/c"));
  io::make_directories(this->at("a/empty"));
  for (const char* name : {"a/2", "a/b/1", "a/b/c/0.0", "ab"})
    io::write_small_file(this->at(name), name);
  std::map<std::string, io::PathStatus> found;
  const auto visit = [&](const std::string& folder) {
    found.clear();
    io::file_system_of(folder).visit_files(
        folder, [&](std::string_view name, const io::PathStatus& status) {
          EXPECT_TRUE(found.emplace(name, status).second) << name;
        });
  };
  for (const char* folder : {"a", "a/"}) {
    visit(this->at(folder));
    ASSERT_EQ(found.size(), 3);
    for (const auto& [name, status] : found) {
      const io::PathStatus wanted = io::status_of(this->at("a/" + name));
      EXPECT_TRUE(status.is_file()) << name;
      EXPECT_EQ(status.size, wanted.size) << name;
      EXPECT_EQ(status.modified_ns, wanted.modified_ns) << name;
      EXPECT_EQ(status.changed_ns, wanted.changed_ns) << name;
      EXPECT_EQ(status.device, wanted.device) << name;
      EXPECT_EQ(status.inode, wanted.inode) << name;
    }
    EXPECT_TRUE(found.contains("b/c/0.0"));
  }
  visit(this->at("absent"));
  EXPECT_TRUE(found.empty());
}

TYPED_TEST_P(FileSystemConformance, AJournalGrows) {
  const io::Directory directory(this->fixture_.root());
  EXPECT_ANY_THROW(directory.append_to("lines"));
  io::write_small_file(this->at("lines"), "first\n");
  const auto journal = directory.append_to("lines");
  journal->append("second\n");
  EXPECT_EQ(io::read_small_file(this->at("lines"), 100), "first\nsecond\n");
  journal->append("third\n");
  EXPECT_EQ(io::read_small_file(this->at("lines"), 100), "first\nsecond\nthird\n");
}

TYPED_TEST_P(FileSystemConformance, OneWriterHoldsTheLock) {
  const io::Directory directory(this->fixture_.root());
  {
    const io::DirectoryLock lock(directory);
    lock.show_life();
    EXPECT_EQ(kind_thrown_by([&] { io::DirectoryLock another(directory); }),
              ErrorKind::kAlreadyExists);
    const io::DirectoryLock of_another_name(directory, ".other");
  }
  const io::DirectoryLock lock(directory);
}

TYPED_TEST_P(FileSystemConformance, OnePathHasOneCanonicalName) {
  io::make_directories(this->at("a"));
  const std::string directory = io::canonical(this->at("a"));
  EXPECT_EQ(io::canonical(this->at("a/")).find(directory), 0u);
  EXPECT_EQ(io::canonical(this->at("a/below")), directory + "/below");
}

TYPED_TEST_P(FileSystemConformance, FilesBesideAreOnALocalDisk) {
  EXPECT_GE(io::scratch_directory(io::Directory(this->fixture_.root())).fd(), 0);
}

REGISTER_TYPED_TEST_SUITE_P(FileSystemConformance, WhatIsNotThereIsAnAnswer,
                            AFileIsReadAsItWasWritten, AnOpenFileIsNotTheOneThatTakesItsName,
                            AFileAppearsWholeOrNotAtAll, AFileTakesWhatALocalOneHolds,
                            WhatIsThereIsReplacedWhereThatWasAskedFor,
                            DirectoriesAreMadeListedAndRemoved, AllFilesBelowAFolderAreVisited,
                            AJournalGrows, OneWriterHoldsTheLock, OnePathHasOneCanonicalName,
                            FilesBesideAreOnALocalDisk);

}  // namespace cellfeed::testing
