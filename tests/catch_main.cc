// The main of test programs that have no other.
#include "tests/catch_runner.h"

int main(int argc, char** argv) { return paceline::testing::run_tests(argc, argv); }
