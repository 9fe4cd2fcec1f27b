package client

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/informd/informd/cmd/informd/control"
)

// The id of a letter is RULE/UID/EVENT/RESOURCEVERSION, and sometimes more. People may leave out
// parts at its end, and the end of the uid.

// shortUID is how many characters of a uid tables show, if that is enough.
const shortUID = 8

// means reports whether ref, as a person wrote it, may stand for id.
func means(id, ref string) bool {
	if id == ref {
		return true
	}
	given, parts := strings.Split(ref, "/"), strings.Split(id, "/")
	for i, part := range given {
		switch {
		case i >= len(parts):
			return false
		case i == 1 && strings.HasPrefix(parts[i], part):
		case part != parts[i]:
			return false
		}
	}
	return true
}

// shortIDs returns for each letter the shortest id that stands for no other, with shortUID
// characters of the uid if that is enough.
func shortIDs(letters []control.Letter) []string {
	// A short form that two letters have is of no use.
	count := make(map[string]int)
	for _, l := range letters {
		for _, form := range forms(l.ID) {
			count[form]++
		}
	}
	ids := make([]string, len(letters))
	for i, l := range letters {
		ids[i] = l.ID
		for _, form := range forms(l.ID) {
			if count[form] == 1 {
				ids[i] = form
				break
			}
		}
	}
	return ids
}

// forms returns the forms of an id that tables may show, the shortest first. The uid in a short
// form has shortUID characters, so that it is not the beginning of another's.
func forms(id string) (forms []string) {
	parts := strings.Split(id, "/")
	if len(parts) < 2 || len(parts[1]) < shortUID {
		return []string{id}
	}
	parts[1] = parts[1][:shortUID]
	for n := 2; n <= len(parts); n++ {
		forms = append(forms, strings.Join(parts[:n], "/"))
	}
	return forms
}

// fullIDs returns the ids that refs stand for. One that stands for no letter stays as it is: the
// daemon then says that there is none. If one stands for several, it is an error.
func fullIDs(ctx context.Context, c *control.Client, refs []string) (ids []string, err error) {
	if len(refs) == 0 {
		return nil, nil
	}
	letters, err := c.Letters(ctx, "", "")
	if err != nil {
		return nil, err
	}
	for _, ref := range refs {
		var found []control.Letter
		for _, l := range letters {
			if means(l.ID, ref) {
				found = append(found, l)
			}
		}
		exact := slices.ContainsFunc(found, func(l control.Letter) bool { return l.ID == ref })
		switch {
		case exact || len(found) == 0:
			ids = append(ids, ref)
		case len(found) == 1:
			ids = append(ids, found[0].ID)
		default:
			return nil, ambiguous(ref, found)
		}
	}
	return ids, nil
}

func ambiguous(ref string, found []control.Letter) error {
	const shown = 3
	ids := shortIDs(found)
	more := ""
	if n := len(ids) - shown; n > 0 {
		ids, more = ids[:shown], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Errorf("%.300q stands for %d dead letters: give more of the id: %s%s",
		ref, len(found), strings.Join(ids, ", "), more)
}
