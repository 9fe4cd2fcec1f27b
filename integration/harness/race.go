//go:build race

package harness

// RaceEnabled reports whether the tests, and the informd under test, have the race detector.
const RaceEnabled = true
