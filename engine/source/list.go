package source

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/informd/informd/engine/object/scan"
)

const (
	listBuffer = 64 << 10 // bytes; the buffer grows for a larger item
	maxItem    = 64 << 20 // bytes; by default etcd accepts 1.5 MiB
	maxPage    = 16 << 30 // bytes of a list or a page of one; twice what etcd may hold
)

// errTooMany ends a list or a watch that has more objects than any cluster.
func errTooMany(most int64) error {
	return fmt.Errorf("the API server sends more than %d objects: "+
		"narrow the source by namespaces or a selector", most)
}

// errNoProgress ends a list whose pages lead nowhere.
var errNoProgress = errors.New("the API server's list does not get on: " +
	"page after page has no objects, or one leads to itself")

// bound is how many objects a list may have.
type bound struct {
	room int64 // on this page and those that follow
	most int64 // on all pages
}

// readList reads a list from the body of a response, item by item. Only the buffer's part of the
// text is in memory. readList calls take with each item, and adds the item to the list if take
// returns true. More items than most has room for are an error; n is how many there were. The
// list's own members may come before or after the items.
func readList(
	body io.Reader, r *entryReader, most bound, take func(*entry) bool,
) (list *internalversion.List, n int64, err error) {
	l := &listReader{
		body: body, buf: make([]byte, 0, listBuffer), reader: r, take: take,
		list: new(internalversion.List), bound: most,
	}
	if err := l.read(); err != nil {
		return nil, l.count, fmt.Errorf("read the list: %w", err)
	}
	return l.list, l.count, nil
}

// listReader reads one list. It has many fields because a list is read in pieces, in any order, and
// within bounds.
type listReader struct {
	body   io.Reader
	buf    []byte // text of the body; the part before start has been parsed
	start  int
	ended  bool  // the body has ended
	size   int64 // bytes of the body so far
	count  int64 // items so far
	bound  bound
	scan   scan.Scanner
	reader *entryReader
	take   func(*entry) bool
	list   *internalversion.List

	kind, apiVersion string // of the list
	hasItems         bool   // it has the member "items", which may be null
	early            bool   // the items came before the list's type
}

func (l *listReader) read() error {
	if err := l.try(func(s *scan.Scanner) error { return s.OpenObject() }); err != nil {
		return err
	}
	for first := true; ; first = false {
		var key string
		var more bool
		err := l.try(func(s *scan.Scanner) error {
			quoted, ok, err := s.NextKey(first)
			if more = ok; ok && err == nil {
				key = scan.Unquote(quoted)
			}
			return err
		})
		if err != nil {
			return err
		}
		if !more {
			return l.finish()
		}
		if err := l.member(key); err != nil {
			return err
		}
	}
}

// finish checks the list at its end, because another JSON text must not pass for an empty list. It
// ignores everything after the end.
func (l *listReader) finish() error {
	switch {
	case !l.hasItems && !strings.HasSuffix(l.kind, "List"):
		return fmt.Errorf("it has no items: it is a %.64q", l.kind)
	case !l.early:
		return nil
	}
	l.early = false
	for n, item := range l.list.Items {
		s := scan.New(item.(*entry).JSON())
		e, err := l.item(&s)
		if err != nil {
			return err
		}
		if l.take(e) {
			l.list.Items[n] = e
		}
	}
	return nil
}

// item reads an item. An item without a type gets the type from the list, once that is known.
func (l *listReader) item(s *scan.Scanner) (*entry, error) {
	kind, ok := strings.CutSuffix(l.kind, "List")
	if !ok || l.early {
		kind = ""
	}
	e, err := l.reader.item(s, l.apiVersion, kind)
	if err == nil {
		l.reader.refuse(e)
	}
	return e, err
}

// member reads one member of the list.
func (l *listReader) member(key string) error {
	if key == "items" {
		l.hasItems = true
		return l.items()
	}
	return l.try(func(s *scan.Scanner) error {
		value, err := s.Skip()
		if err != nil {
			return err
		}
		switch key {
		case "kind":
			return json.Unmarshal(value, &l.kind)
		case "apiVersion":
			return json.Unmarshal(value, &l.apiVersion)
		case "metadata":
			l.list.ListMeta = metav1.ListMeta{} // the last of two counts
			return json.Unmarshal(value, &l.list.ListMeta)
		}
		return nil
	})
}

func (l *listReader) items() error {
	l.list.Items, l.early = nil, l.kind == "" || l.apiVersion == ""
	null := false
	err := l.try(func(s *scan.Scanner) error {
		kind, err := s.Kind()
		if err != nil {
			return err
		}
		if null = kind == 'n'; null {
			_, err = s.Skip()
			return err
		}
		return s.OpenList()
	})
	if err != nil || null {
		return err
	}
	for first := true; ; first = false {
		var e *entry
		err := l.try(func(s *scan.Scanner) error {
			more, err := s.NextItem(first)
			if err != nil || !more {
				return err
			}
			e, err = l.item(s)
			return err
		})
		if err != nil || e == nil {
			return err
		}
		if l.count++; l.count > l.bound.room {
			return errTooMany(l.bound.most)
		}
		if l.take(e) {
			l.list.Items = append(l.list.Items, e)
		}
	}
}

// try calls read on the buffered text. If the text ends too early, try waits for more and calls
// read again from the same place.
func (l *listReader) try(read func(*scan.Scanner) error) error {
	for {
		s := &l.scan
		s.Reset(l.buf[l.start:])
		err := read(s)
		if !errors.Is(err, io.ErrUnexpectedEOF) || l.ended {
			l.start += s.Pos()
			return err
		}
		if err := l.fill(); err != nil {
			return err
		}
	}
}

// fill fills the whole buffer, so that a long item is not parsed again for every few bytes.
func (l *listReader) fill() error {
	if l.start > 0 {
		l.buf = l.buf[:copy(l.buf, l.buf[l.start:])]
		l.start = 0
	}
	if len(l.buf) == cap(l.buf) {
		if len(l.buf) >= maxItem {
			return fmt.Errorf("an item has more than %d MiB", maxItem>>20)
		}
		l.buf = append(make([]byte, 0, 2*cap(l.buf)), l.buf...)
	}
	n, err := io.ReadFull(l.body, l.buf[len(l.buf):cap(l.buf)])
	l.buf = l.buf[:len(l.buf)+n]
	if l.size += int64(n); l.size > maxPage {
		return fmt.Errorf("it has more than %d GiB", maxPage>>30)
	}
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		l.ended, err = true, nil
	}
	return err
}
