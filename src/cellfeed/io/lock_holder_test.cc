#include "cellfeed/io/lock_holder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

namespace cellfeed::io {
namespace {

int ended_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

std::string own_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

TEST(LockHolderTest, ThisProcessIsHereAndAlive) {
  const LockHolder holder = LockHolder::parse(LockHolder::this_process().line());
  EXPECT_EQ(holder.process, ::getpid());
  EXPECT_TRUE(holder.is_here());
  EXPECT_FALSE(holder.is_dead());
}

TEST(LockHolderTest, AnEndedProcessOfThisMachineIsDead) {
  LockHolder holder = LockHolder::this_process();
  holder.process = ended_process();
  EXPECT_TRUE(LockHolder::parse(holder.line()).is_dead());
}

// Containers may share the name of their machine, and each counts its processes from 1.
TEST(LockHolderTest, WhatAnotherNamespaceCountsIsNotTakenForDead) {
  const LockHolder holder{ended_process(), own_name() + " pid:[1]"};
  EXPECT_FALSE(LockHolder::parse(holder.line()).is_here());
  EXPECT_FALSE(LockHolder::parse(holder.line()).is_dead());
}

}  // namespace
}  // namespace cellfeed::io
