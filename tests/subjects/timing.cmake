# Phases: recorder, split of an exchange, histograms, sums; and the files a run leaves behind.
paceline_test(timing_test
  SOURCES unit/histogram_test.cc unit/phase_totals_test.cc unit/recorder_test.cc
  LIBS paceline_timing
  LABELS core)
