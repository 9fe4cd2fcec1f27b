package fleet

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// template is the JSON of an object with blanks, as pieces of text that each end in a blank. The
// last piece has no blank.
type template []piece

type piece struct {
	before []byte
	blank  blank
}

// blank is a place where objects of one template differ.
type blank int

const (
	noBlank         blank = iota
	blankSuffix           // the generated end of the name
	blankUID              //
	blankVersion          // the resourceVersion
	blankSent             //
	blankCreated          // times, in the order of an object's life
	blankScheduled        //
	blankDied             // when the run before the last restart ended
	blankBorn             // when that run began
	blankStarted          // when the container last started
	blankTransition       // when the last update happened
	blankNode             //
	blankHostIP           //
	blankPodIP            //
	blankContainer0       // container IDs
	blankContainer1       //
	blankContainer2       //
	blankRestarted        // the ID of the container before the last restart
	blankRestarts         // numbers that updates change
	blankCount            //
	blankToken            // 64 hexadecimal digits that updates change
)

// The marks of blanks in an object: a string, a time, or a number.
func mark(b blank) string          { return fmt.Sprintf("@%02d@", int(b)) }
func timeMark(b blank) metav1.Time { return metav1.Date(2001, 1, 1, 0, 0, int(b), 0, time.UTC) }

const (
	restartsMark = 1_900_000_000
	countMark    = 1_900_000_001
)

var marks = regexp.MustCompile(`@(\d\d)@|2001-01-01T00:00:(\d\d)Z|` +
	fmt.Sprint(restartsMark) + `|` + fmt.Sprint(countMark))

// newTemplate makes a template from an object that contains marks. kind and apiVersion must not be
// set.
func newTemplate(object any) template {
	text, err := json.Marshal(object)
	if err != nil {
		panic(fmt.Sprintf("fleet: %v", err)) // the objects are this package's own
	}
	var t template
	from := 0
	for _, m := range marks.FindAllSubmatchIndex(text, -1) {
		p := piece{before: text[from:m[0]]}
		switch mark := string(text[m[0]:m[1]]); mark {
		case strconv.Itoa(restartsMark):
			p.blank = blankRestarts
		case strconv.Itoa(countMark):
			p.blank = blankCount
		default:
			// One of the two groups matched; the other one's indexes are -1.
			number := text[max(m[2], m[4]):max(m[3], m[5])]
			n, _ := strconv.Atoi(string(number))
			p.blank = blank(n)
		}
		t, from = append(t, p), m[1]
	}
	return append(t, piece{before: text[from:]})
}

// append appends the object's JSON, with the blanks filled in.
func (t template) append(b []byte, fill func(b []byte, what blank) []byte) []byte {
	for _, p := range t {
		b = append(b, p.before...)
		if p.blank != noBlank {
			b = fill(b, p.blank)
		}
	}
	return b
}

// clock gives each object a time of its own.
type clock struct{ last atomic.Int64 }

var sentClock clock

// next returns now, or if that time or a later one is taken, the first one after those. Times are
// in nanoseconds. It is safe for concurrent use.
func (c *clock) next(now int64) int64 {
	for {
		last := c.last.Load()
		next := max(now, last+1)
		if c.last.CompareAndSwap(last, next) {
			return next
		}
	}
}

// sent appends the current time, as SentAnnotation has it.
func sent(b []byte) []byte {
	return strconv.AppendInt(b, sentClock.next(time.Now().UnixNano()), 10)
}
