package risk

import "testing"

// What counts is a crash of the goroutine that crashed, in the store.
func TestCrashesInTheStore(t *testing.T) {
	const pebble = "goroutine 9 [running]:\ngithub.com/cockroachdb/pebble/v2.(*DB).compact1(...)\n\t/x.go:1\n"
	const engine = "goroutine 8 [running]:\ngithub.com/informd/informd/engine.(*intake).take(...)\n\t/x.go:1\n"
	for text, want := range map[string]bool{
		"":                                       false,
		"panic: index out of range\n\n" + pebble: true,
		"panic: index out of range\n\n" + pebble + "\n" + engine:                                              true,
		"panic: index out of range\n\n" + engine + "\n" + pebble:                                              false,
		"fatal error: runtime: out of memory\n\nruntime stack:\n\n" + pebble:                                  false,
		"fatal error: runtime: cannot allocate memory\n\n" + pebble:                                           false,
		"unexpected fault address 0x1\nfatal error: fault\n\n" + pebble:                                       true,
		"panic: with GOTRACEBACK=none\n":                                                                      true,
		"panic: x\n\ngoroutine 1 [running]:\ngithub.com/informd/informd/engine/state.(*writer).set(...)\n":    true,
		"panic: x\n\ngoroutine 1 [running]:\ngithub.com/informd/informd/engine/state/records.ReadRule(...)\n": true,
	} {
		if got := isCrashInStore(text); got != want {
			t.Errorf("%v, want %v: %s", got, want, text)
		}
	}
}
