package object

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/klauspost/compress/s2"
)

// Packer compresses texts that resemble each other, as those of one resource's objects do, with a
// dictionary made from a sample of them. A packed text keeps the dictionary it was packed with;
// later dictionaries are better.
//
// A Packer holds a sample of 128 objects with up to 64 KiB each, and its dictionaries of up to 64
// KiB each, of which never more than 16 are in use. It is safe for concurrent use.
type Packer struct {
	current atomic.Pointer[packing]

	mu     sync.Mutex // guards the fields below; nobody holds it while packing a text
	sample sample
	due    int                        // sample.seen at which the next dictionary is due
	made   []weak.Pointer[Dictionary] // all that may still be in use
	// usual is the share of the texts' size that the current dictionary left at first. It is 0
	// until that is known.
	usual  float64
	latest struct{ texts, plain, packed int }
}

// packing is how the Packer currently packs texts.
type packing struct {
	dictionary *Dictionary
	encoder    *s2.Dict // nil for the zero dictionary
}

const (
	// texts, which are packed without; each next dictionary follows after four times as many
	firstDictionary = 32
	maxDictionaries = 16

	// After every 1024 texts the Packer compares their packed size with that of the first 1024
	// texts of the dictionary. If a quarter more is left of them, objects have changed, and it
	// begins a new sample.
	compared     = 1024
	clearlyWorse = 1.25
)

// NewPacker returns a Packer that has seen no object.
func NewPacker() *Packer {
	p := &Packer{sample: newSample(), due: firstDictionary}
	p.current.Store(&packing{dictionary: new(Dictionary)})
	return p
}

// Pack packs o's text, unless that is not smaller. Others may read o meanwhile.
func (p *Packer) Pack(o *Object) {
	p.PackBeside(o)
	o.Shrink()
}

// PackBeside packs o's text like Pack, and keeps the plain text beside the packed form, for readers
// to come. Pack and Shrink drop it.
func (p *Packer) PackBeside(o *Object) {
	plain := o.content.Load()
	if plain.packed != nil || plain.form != nil {
		return
	}
	buf := buffers.Get().(*[]byte)
	defer giveBack(buf)
	with := p.current.Load()
	if with.encoder == nil {
		*buf = s2.Encode(*buf, plain.bytes)
	} else {
		*buf = with.encoder.Encode(*buf, plain.bytes)
	}
	if len(*buf) < len(plain.bytes) {
		form := &content{bytes: bytes.Clone(*buf), packed: with.dictionary}
		o.content.CompareAndSwap(plain, &content{bytes: plain.bytes, form: form})
	}
	p.learn(o, len(plain.bytes), len(*buf))
}

// learn records a text and its packed size.
func (p *Packer) learn(o *Object, plain, packed int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if plain <= sampledText {
		p.sample.add(o, plain)
	}
	p.latest.texts++
	p.latest.plain += plain
	p.latest.packed += packed
	if p.latest.texts == compared {
		left := float64(p.latest.packed) / float64(p.latest.plain)
		p.latest.texts, p.latest.plain, p.latest.packed = 0, 0, 0
		if p.usual == 0 {
			p.usual = left
		} else if left > p.usual*clearlyWorse {
			p.sample, p.due, p.usual = newSample(), compared, left
		}
	}
	if p.sample.seen >= p.due {
		p.renew()
	}
}

// renew makes a dictionary. The caller holds mu.
func (p *Packer) renew() {
	p.made = slices.DeleteFunc(p.made, func(d weak.Pointer[Dictionary]) bool {
		return d.Value() == nil
	})
	text, beginning := p.sample.text()
	if len(p.made) == maxDictionaries || len(text) < s2.MinDictSize {
		p.due += compared
		return
	}
	p.due *= 4
	p.latest.texts, p.latest.plain, p.latest.packed, p.usual = 0, 0, 0, 0
	d, encoder := newDictionary(text, beginning)
	p.made = append(p.made, weak.Make(d))
	p.current.Store(&packing{d, encoder})
}
