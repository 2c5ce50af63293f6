#include "cellfeed/io/local_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>

#include "cellfeed/io/open_file.h"
#include "cellfeed/testing/byte_source_conformance.h"
#include "cellfeed/testing/forked_child.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::io {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::PlannedReads;
using testing::random_bytes;
using testing::run_in_child;
using testing::TempDir;

constexpr FileAccess kAll[] = {FileAccess::kMap, FileAccess::kPread, FileAccess::kUring};

ErrorKind kind_of_open_error(const std::string& path, const LocalFileOptions& options = {}) {
  try {
    open_local_file(path, options);
  } catch (const Error& error) {
    EXPECT_TRUE(error.path() == path || error.path().empty()) << error.what();
    return error.kind();
  }
  ADD_FAILURE() << path << " opened";
  return ErrorKind::kInternal;
}

// From here on this process's calls of io_uring_setup fail with EPERM, as in many containers.
bool refuse_io_uring() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{.len = 4, .filter = program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST(LocalFile, MissingFileIsNotFound) {
  const TempDir dir;
  for (const FileAccess access : kAll) {
    EXPECT_EQ(kind_of_open_error(dir.file("gone"), {.access = access}), ErrorKind::kNotFound);
  }
}

TEST(LocalFile, DirectoriesAndPipesAreRefused) {
  const TempDir dir;
  ASSERT_EQ(::mkfifo(dir.file("pipe").c_str(), 0600), 0);
  for (const FileAccess access : kAll) {
    EXPECT_EQ(kind_of_open_error(dir.path(), {.access = access}), ErrorKind::kIo);
    EXPECT_EQ(kind_of_open_error(dir.file("pipe"), {.access = access}), ErrorKind::kIo);
  }
}

TEST(LocalFile, FileWithoutPermissionSaysSo) {
  const TempDir dir;
  const std::string path = dir.write("secret", "x");
  ::chmod(dir.path().c_str(), 0755);
  ::chmod(path.c_str(), 0);
  const int code = run_in_child([&] {
    if (::geteuid() == 0 && ::seteuid(65534) != 0) return false;  // root may read everything
    try {
      open_local_file(path);
      return false;
    } catch (const Error& error) {
      return error.kind() == ErrorKind::kIo && error.path() == path &&
             std::string_view(error.what()).find("permission") != std::string_view::npos;
    }
  });
  EXPECT_EQ(code, 0);
}

TEST(LocalFile, OptionsThatMakeNoSenseAreRefused) {
  const TempDir dir;
  const std::string path = dir.write("x", "x");
  const auto refused = [&](const LocalFileOptions& options) {
    return kind_of_open_error(path, options) == ErrorKind::kInvalidArgument;
  };
  EXPECT_TRUE(refused({.direct = true}));
  EXPECT_TRUE(refused({.queue_depth = 0}));
  EXPECT_TRUE(refused({.queue_depth = 1 << 20}));
  EXPECT_TRUE(refused({.threads = 0}));
}

TEST(LocalFile, BackendSaysWhatServesTheReads) {
  const TempDir dir;
  const std::string path = dir.write("x", "x");
  const auto name = [&](FileAccess access) {
    return std::string(open_local_file(path, {.access = access})->backend_name());
  };
  EXPECT_EQ(name(FileAccess::kMap), "mmap");
  EXPECT_EQ(name(FileAccess::kPread), "pread");
  EXPECT_THAT(name(FileAccess::kUring), AnyOf("io_uring", "pread (io_uring refused)"));
}

TEST(LocalFile, DirectReadsOfWholeBlocksEqualAllOthers) {
  const TempDir dir;
  const auto content = testing::random_bytes((3 << 20) + 777, 4);
  const std::string path = dir.write("content.bin", content);
  std::unique_ptr<ByteSource> source;
  try {
    source = open_local_file(path, {.access = FileAccess::kUring, .direct = true});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported) throw;
    GTEST_SKIP() << "this file system has no direct reads";
  }
  const std::int64_t block = source->alignment();
  ASSERT_GE(block, 1);
  const AlignedBytes buffer = allocate_direct_buffer(4 << 20);
  std::vector<ReadRequest> requests;
  std::int64_t at = 0;
  // Blocks of all lengths, a few of them moved off their alignment, and the file's last bytes.
  for (std::int64_t n = 1; at + n * block < source->size(); n = n * 2 % 1023) {
    const std::int64_t shift = n == 4 || n == 64 ? 1 : 0;
    const auto length = static_cast<std::size_t>(n * block - shift);
    requests.push_back({at + shift, {buffer.get() + at + shift, length}});
    at += n * block;
  }
  requests.push_back({at, {buffer.get() + at, static_cast<std::size_t>(source->size() - at)}});
  source->read_many(requests);
  for (const ReadRequest& request : requests)
    EXPECT_TRUE(std::ranges::equal(
        request.out,
        std::span(content).subspan(static_cast<std::size_t>(request.offset), request.out.size())))
        << "offset " << request.offset << ", " << request.out.size() << " bytes";
}

TEST(LocalFile, FallsBackVisiblyWhereIoUringIsRefused) {
  const TempDir dir;
  const auto content = random_bytes(5000, 1);
  const std::string path = dir.write("x", content);
  const int code = run_in_child([&] {
    if (!refuse_io_uring()) return false;
    const auto source =
        open_local_file(path, {.access = FileAccess::kUring, .queue_depth = 33, .threads = 1});
    PlannedReads reads(content);
    reads.add_random(100, 100, 2);
    source->read_many(reads.requests());
    return source->backend_name() == "pread (io_uring refused)" && reads.all_equal_content();
  });
  EXPECT_EQ(code, 0);
}

TEST(LocalFile, InheritedSourcesWorkInAForkedChild) {
  if (testing::kThreadSanitizer)
    GTEST_SKIP() << "ThreadSanitizer ends a forked child that starts a thread";
  const TempDir dir;
  const auto content = random_bytes(50000, 1);
  const std::string path = dir.write("x", content);
  for (const FileAccess access : kAll) {
    const auto source = open_local_file(path, {.access = access});
    const auto reads_well = [&] {
      PlannedReads reads(content);
      reads.add_random(300, 500, 2);
      source->read_many(reads.requests());
      return reads.all_equal_content();
    };
    EXPECT_TRUE(reads_well());  // rings and threads exist before the fork
    EXPECT_EQ(run_in_child(reads_well), 0) << source->backend_name();
    EXPECT_TRUE(reads_well());
  }
}

TEST(LocalFile, FileThatShrinksIsATruncatedError) {
  const TempDir dir;
  const auto content = random_bytes(10000, 1);
  for (const bool direct : {false, true}) {
    for (const FileAccess access : {FileAccess::kPread, FileAccess::kUring}) {
      const std::string path = dir.write("x", content);
      const auto source = open_local_file(path, {.access = access, .direct = direct});
      ASSERT_EQ(::truncate(path.c_str(), 6000), 0);
      PlannedReads reads(content);
      for (int i = 0; i < 100; ++i) reads.add(i * 60, 60);
      source->read_many(reads.requests());
      EXPECT_TRUE(reads.all_equal_content());
      for (int i = 0; i < 20; ++i) reads.add(5900 + i, 200);
      try {
        source->read_many(reads.requests());
        ADD_FAILURE() << "no error";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kCorruptData);
        EXPECT_THAT(error.what(), HasSubstr("truncated"));
      }
      PlannedReads again(content);  // a failed round leaves nothing behind
      for (int i = 0; i < 100; ++i) again.add(i * 60, 60);
      source->read_many(again.requests());
      EXPECT_TRUE(again.all_equal_content());
    }
  }
}

TEST(LocalFile, TellsThatItWasWrittenToButNotThatAnotherTookItsName) {
  const TempDir dir;
  for (const FileAccess access : kAll) {
    const std::string path = dir.write("x", random_bytes(1000, 1));
    const auto source = open_local_file(path, {.access = access});
    EXPECT_TRUE(source->is_unchanged());
    std::filesystem::rename(dir.write("y", random_bytes(2000, 2)), path);
    EXPECT_TRUE(source->is_unchanged());
    const auto another = open_local_file(path, {.access = access});
    const timespec times[2] = {{1, 0}, {1, 500}};  // as large as before, and of another time
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
    EXPECT_FALSE(another->is_unchanged());
    EXPECT_TRUE(source->is_unchanged());
    const auto longer = open_local_file(path, {.access = access});
    std::ofstream(path, std::ios::app) << "more";
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);  // and the reverse
    EXPECT_FALSE(longer->is_unchanged());
  }
}

TEST(LocalFile, OneFailedReadAmongManyBegunFailsItsOwnOnly) {
  const TempDir dir;
  const auto content = random_bytes(40000, 1);
  for (const bool direct : {false, true}) {
    const std::string whole = dir.write("whole", content);
    const std::string shrunken = dir.write("shrunken", content);
    const LocalFileOptions options{.access = FileAccess::kUring, .direct = direct};
    const auto source = open_local_file(whole, options);
    const auto damaged = open_local_file(shrunken, options);
    ASSERT_EQ(::truncate(shrunken.c_str(), 20000), 0);
    PlannedReads before(content), bad(content), after(content);
    for (int i = 0; i < 300; ++i) before.add(i * 100, 100);
    for (int i = 0; i < 300; ++i) bad.add(i * 130, 100);
    for (int i = 0; i < 300; ++i) after.add(i * 100 + 7, 100);
    const auto first = source->begin_read_many(before.requests());
    const auto broken = damaged->begin_read_many(bad.requests());
    const auto last = source->begin_read_many(after.requests());
    if (!broken) return;  // io_uring is refused here
    last->wait();
    first->wait();
    EXPECT_TRUE(before.all_equal_content());
    EXPECT_TRUE(after.all_equal_content());
    for (int i = 0; i < 2; ++i) {
      try {
        broken->wait();
        ADD_FAILURE() << "no error";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kCorruptData);
        EXPECT_EQ(error.path(), shrunken);
      }
    }
  }
}

TEST(LocalFile, DescriptorsAreClosed) {
  const TempDir dir;
  const std::string path = dir.write("x", "abc");
  const auto next_fd = [] {
    const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::close(fd);
    return fd;
  };
  for (const FileAccess access : kAll) open_local_file(path, {.access = access});
  const int before = next_fd();
  for (int i = 0; i < 50; ++i) {
    for (const FileAccess access : kAll) open_local_file(path, {.access = access});
  }
  EXPECT_EQ(next_fd(), before);
}

}  // namespace
}  // namespace cellfeed::io
