package client

import (
	"bytes"
	"context"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool { return columns(w) > 0 }

// columns returns the width of the terminal w, or 0 if it is none.
func columns(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	if size.Col == 0 { // a terminal without a size, such as a serial line
		return 80
	}
	return int(size.Col)
}

// width returns how many columns text for w may take: $COLUMNS, or else the terminal's. 0 means any
// number.
func width(w io.Writer) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	return columns(w)
}

// watchEvery is the time between two pictures of --watch.
const watchEvery = 2 * time.Second

// watch writes what draw writes, again and again until ctx ends. On a terminal each picture replaces
// the one before; elsewhere an empty line is between them.
func watch(ctx context.Context, w io.Writer, draw func(io.Writer) error) error {
	redraws := isTerminal(w)
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for first := true; ; first = false {
		var picture bytes.Buffer
		if err := draw(&picture); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		text := picture.String()
		switch {
		case redraws && first:
			text = "\x1b[H\x1b[2J" + text
		case redraws: // line by line, so that nothing flickers
			text = "\x1b[H" + strings.ReplaceAll(text, "\n", "\x1b[K\n") + "\x1b[J"
		case !first:
			text = "\n" + text
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// wrap breaks text into lines of at most most columns, at spaces. The lines after the first begin
// with indent. 0 columns mean any number.
func wrap(text, indent string, most int) string {
	if most <= 0 || len([]rune(text)) <= most {
		return text
	}
	var b strings.Builder
	room := 0
	for i, word := range strings.Fields(text) {
		n := len([]rune(word))
		switch {
		case i == 0:
			lead := text[:len(text)-len(strings.TrimLeft(text, " "))]
			b.WriteString(lead)
			room = most - len(lead)
		case n+1 > room:
			b.WriteString("\n" + indent)
			room = most - len(indent)
		default:
			b.WriteByte(' ')
			room--
		}
		b.WriteString(word)
		room -= n
	}
	return b.String()
}
