package client

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// terminal returns the size of the terminal w, or zeros if it is none.
func terminal(w io.Writer) (columns, lines int) {
	f, ok := w.(interface{ Fd() (uintptr, bool) }) // see cli.Execute
	if !ok {
		return 0, 0
	}
	fd, ok := f.Fd()
	if !ok {
		return 0, 0
	}
	size, err := unix.IoctlGetWinsize(int(fd), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	if size.Col == 0 || size.Row == 0 { // a terminal without a size, such as a serial line
		return 80, 24
	}
	return int(size.Col), int(size.Row)
}

// isTerminal reports whether a person answers at r.
func isTerminal(r io.Reader) bool {
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// agrees asks a question, and reports whether the answer is yes.
func agrees(in io.Reader, out io.Writer, question string) bool {
	fmt.Fprint(out, question+" [y/N] ")
	answer, _ := bufio.NewReader(in).ReadString('\n')
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

// width returns how many columns text for w may take: $COLUMNS, or else the terminal's. 0 means any
// number.
func width(w io.Writer) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	columns, _ := terminal(w)
	return columns
}

// watchEvery is the time between two pictures of --watch.
const watchEvery = 2 * time.Second

// watch writes what draw writes, again and again until ctx ends. On a terminal each picture
// replaces the one before, and is cut where it is larger than the terminal; elsewhere an empty line
// is between them.
func watch(ctx context.Context, w io.Writer, draw func(io.Writer) error) error {
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
		columns, lines := terminal(w) // people resize it
		switch {
		case columns > 0:
			text = screen(text, columns, lines)
			if first {
				text = "\x1b[2J" + text
			}
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

// screen returns the commands that show a text on a terminal in place of what is there, line by
// line, so that nothing flickers. It cuts lines that are too long, and says how many do not fit.
func screen(text string, columns, lines int) string {
	all := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if room := lines - 2; len(all) > lines-1 && room > 0 { // the cursor stands in the last line
		more := len(all) - room
		all = append(all[:room:room], fmt.Sprintf(
			"… %d more lines: make the terminal taller, or leave out --watch", more))
	}
	var b strings.Builder
	b.WriteString("\x1b[H")
	for _, line := range all {
		b.WriteString(shortened(line, columns))
		if utf8.RuneCountInString(line) < columns { // in the last column it would erase a character
			b.WriteString("\x1b[K")
		}
		b.WriteByte('\n')
	}
	b.WriteString("\x1b[J")
	return b.String()
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
