// Runs a fuzz target without libFuzzer: mutated seeds, each one a function of (seed, iteration), so
// that the iteration printed at a crash can be run again alone.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <random>
#include <string>

#include "fuzz/target.h"

extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace {

using Bytes = std::vector<std::uint8_t>;

struct Options {
  std::uint64_t seed = 1;
  std::uint64_t start = 0;
  std::uint64_t iterations = 100000;
  double seconds = 0;  // 0: no limit but iterations
};

volatile std::uint64_t current_iteration = 0;
std::uint64_t current_seed = 0;

void print_iteration() {
  std::fprintf(stderr, "\nfault at: --seed %llu --start %llu --iterations 1\n",
               static_cast<unsigned long long>(current_seed),
               static_cast<unsigned long long>(current_iteration));
}

void on_signal(int signal_number) {
  print_iteration();
  std::signal(signal_number, SIG_DFL);
  std::raise(signal_number);
}

[[noreturn]] void usage(const char* program) {
  std::fprintf(stderr, "usage: %s [--iterations N] [--seconds S] [--seed N] [--start N]\n",
               program);
  std::exit(2);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) usage(argv[0]);
    char* end = nullptr;
    const double number = std::strtod(argv[i + 1], &end);
    if (*end != 0 || number < 0) usage(argv[0]);
    const auto whole = static_cast<std::uint64_t>(number);
    if (name == "--seed")
      options.seed = whole;
    else if (name == "--start")
      options.start = whole;
    else if (name == "--iterations")
      options.iterations = whole;
    else if (name == "--seconds")
      options.seconds = number, options.iterations = UINT64_MAX / 2;
    else
      usage(argv[0]);
  }
  return options;
}

// One change of the kinds that parsers trip over.
void mutate_once(Bytes& input, const Bytes& other, std::mt19937_64& random) {
  const auto below = [&](std::size_t n) {
    return n == 0 ? 0 : static_cast<std::size_t>(random() % n);
  };
  const std::size_t at = below(input.size());
  switch (input.empty() ? 4 : random() % 8) {
    case 0:
      input[at] = static_cast<std::uint8_t>(input[at] ^ (1u << random() % 8));
      break;
    case 1:
      input[at] = static_cast<std::uint8_t>(random());
      break;
    case 2: {  // an interesting number of 1, 2, 4 or 8 bytes
      constexpr std::uint64_t kNumbers[] = {
          0, 1, 127, 128, 255, 0x7fff, 0xffff, 0x7fffffff, 0xffffffff, ~0ull >> 1, ~0ull};
      const std::uint64_t number = kNumbers[random() % std::size(kNumbers)];
      std::memcpy(input.data() + at, &number,
                  std::min<std::size_t>(input.size() - at, std::size_t{1} << random() % 4));
      break;
    }
    case 3:
      input.resize(at);
      break;
    case 4: {  // insert some bytes
      Bytes some(1 + below(8));
      for (auto& byte : some) byte = static_cast<std::uint8_t>(random());
      input.insert(input.begin() + static_cast<std::ptrdiff_t>(at), some.begin(), some.end());
      break;
    }
    case 5: {  // remove some bytes
      const std::size_t count = std::min(input.size() - at, 1 + below(8));
      input.erase(input.begin() + static_cast<std::ptrdiff_t>(at),
                  input.begin() + static_cast<std::ptrdiff_t>(at + count));
      break;
    }
    case 6: {  // move bytes within
      const std::size_t from = below(input.size());
      std::memmove(input.data() + at, input.data() + from,
                   below(input.size() - std::max(at, from)));
      break;
    }
    case 7: {  // splice with another seed
      const std::size_t cut = below(other.size());
      input.resize(at);
      input.insert(input.end(), other.begin() + static_cast<std::ptrdiff_t>(cut), other.end());
      break;
    }
  }
}

Bytes make_input(const std::vector<Bytes>& seeds, std::uint64_t seed, std::uint64_t iteration) {
  std::seed_seq sequence{seed, seed >> 32, iteration, iteration >> 32};
  std::mt19937_64 random(sequence);
  Bytes input = seeds.empty() ? Bytes{} : seeds[random() % seeds.size()];
  const Bytes other = seeds.empty() ? Bytes{} : seeds[random() % seeds.size()];
  // No change at all now and then: sound inputs must stay sound.
  for (std::uint64_t changes = random() % 6; changes-- > 0;) mutate_once(input, other, random);
  input.shrink_to_fit();
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  current_seed = options.seed;
  for (const int signal_number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL})
    std::signal(signal_number, on_signal);
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(print_iteration);
  const std::vector<Bytes> seeds = cellfeed::fuzz::seed_inputs();
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t done = 0;
  for (; done < options.iterations; ++done) {
    current_iteration = options.start + done;
    const Bytes input = make_input(seeds, options.seed, current_iteration);
    LLVMFuzzerTestOneInput(input.data(), input.size());
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    if (options.seconds > 0 && taken.count() > options.seconds) break;
  }
  std::printf("%llu inputs, no fault\n", static_cast<unsigned long long>(done));
  return 0;
}
