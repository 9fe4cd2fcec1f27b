package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	// The name may hold what separates fields; the rest is of a real file.
	line := "42 (a) Z 1 (b) S 7 42 42 0 -1 4194560 1 0 0 0 150 25 30 2 20 0 9 0 5 1000 " + fmt.Sprint(3<<20/os.Getpagesize()) + " 1 1\n"
	got, err := parseStat(line)
	want := process{pid: 42, parent: 7, cpu: 2070 * time.Millisecond, rss: 3 << 10}
	if err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	for _, bad := range []string{"", "42", "42 (a)", "42 a S 7", strings.Replace(line, "150", "x", 1), strings.Replace(line, "42", "", 1)} {
		if got, err := parseStat(bad); err == nil {
			t.Errorf("%q: got %+v; want an error", bad, got)
		}
	}
}
