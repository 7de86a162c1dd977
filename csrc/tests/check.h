// A test runner in one header: one line for each test, and a negative control for what compares.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace check {

// What the running test has found wrong.
inline int& failures() {
  static int count = 0;
  return count;
}

inline bool& quiet() {
  static bool value = false;
  return value;
}

inline void fail(const std::string& what) {
  ++failures();
  if (!quiet()) {
    std::printf("    %s\n", what.c_str());
  }
}

inline void holds(bool condition, const char* what) {
  if (!condition) {
    fail(what);
  }
}

// |got - want| <= tolerance * scale; NaN is near nothing.
inline void near(double got, double want, double tolerance, double scale = 1) {
  if (!(std::abs(got - want) <= tolerance * scale)) {
    char line[160];
    std::snprintf(
        line, sizeof(line), "got %.17g, want %.17g within %.3g", got, want, tolerance * scale);
    fail(line);
  }
}

// All numbers of two arrays, relative to the largest that is wanted, or to one.
template <class T, class U>
void all_near(const std::vector<T>& got, const std::vector<U>& want, double tolerance) {
  double scale = 1;
  for (const U x : want) {
    scale = std::max(scale, std::abs(static_cast<double>(x)));
  }
  holds(got.size() == want.size(), "arrays of the same size");
  for (size_t i = 0; i < got.size() && i < want.size(); ++i) {
    near(got[i], want[i], tolerance, scale);
  }
}

// Whether a check fails: what cannot fail tests nothing.
inline bool fails(const std::function<void()>& body) {
  const int before = std::exchange(failures(), 0);
  const bool was_quiet = std::exchange(quiet(), true);
  body();
  quiet() = was_quiet;
  return std::exchange(failures(), before) > 0;
}

struct Test {
  std::string name;
  std::function<void()> body;
};

inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

inline bool add(const std::string& name, std::function<void()> body) {
  tests().push_back({name, std::move(body)});
  return true;
}

// A test that is run with a zero of either type.
template <class Body>
bool add_for_floats(const std::string& name, Body body) {
  add(name + ", float", [body] { body(0.0f); });
  return add(name + ", double", [body] { body(0.0); });
}

inline int run() {
  int failed = 0;
  for (const Test& test : tests()) {
    failures() = 0;
    test.body();
    std::printf("%s  %s\n", failures() == 0 ? "ok  " : "FAIL", test.name.c_str());
    failed += failures() > 0;
  }
  std::printf("%zu tests, %d failed\n", tests().size(), failed);
  return failed > 0 || tests().empty();
}

// Numbers that are the same on every run.
template <class T>
std::vector<T> normal(int64_t count, unsigned seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> distribution;
  std::vector<T> numbers(count);
  for (T& number : numbers) {
    number = static_cast<T>(distribution(generator));
  }
  return numbers;
}

template <class T>
constexpr double epsilon = std::numeric_limits<T>::epsilon();

}  // namespace check

int main() { return check::run(); }
