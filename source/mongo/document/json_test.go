package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/source/mongo/mongotest"
)

// anyValue is a random value of any type that JSON can show in one way only.
func anyValue(r *rand.Rand, depth int) any {
	switch r.IntN(20) {
	case 0:
		return int32(r.Uint32())
	case 1:
		return int64(r.Uint64())
	case 2:
		return (r.Float64() - 0.5) * math.Pow(10, float64(r.IntN(40)-20))
	case 3:
		return float64(r.IntN(1000))
	case 4:
		return []any{math.NaN(), math.Inf(1), math.Inf(-1)}[r.IntN(3)]
	case 5:
		return r.IntN(2) == 0
	case 6:
		return nil
	case 7:
		return bson.NewObjectID()
	case 8:
		return bson.NewDateTimeFromTime(time.UnixMilli(r.Int64N(253402300800000)))
	case 9:
		return bson.DateTime(-r.Int64N(1e12))
	case 10:
		return bson.Binary{Subtype: []byte{0, 1, 3, 4, 5, 0x80}[r.IntN(6)], Data: []byte(anyText(r))}
	case 11:
		return bson.Timestamp{T: r.Uint32(), I: r.Uint32()}
	case 12:
		return bson.NewDecimal128(0x3040000000000000, r.Uint64())
	case 13:
		return bson.Regex{Pattern: "a\"b", Options: "ix"}
	case 14:
		return bson.JavaScript("f()")
	case 15:
		return []any{bson.MinKey{}, bson.MaxKey{}, bson.Symbol("s"), bson.Undefined{}}[r.IntN(4)]
	case 16:
		if depth < 4 {
			list := bson.A{}
			for range r.IntN(4) {
				list = append(list, anyValue(r, depth+1))
			}
			return list
		}
	case 17:
		if depth < 4 {
			return anyDocument(r, depth+1)
		}
	}
	return anyText(r)
}

func anyText(r *rand.Rand) string {
	letters := []rune("ab \"\\/\n\t\r\x01\x7f<>&\u00e4\u2028\U0001F600")
	s := make([]rune, r.IntN(12))
	for i := range s {
		s[i] = letters[r.IntN(len(letters))]
	}
	return string(s)
}

func anyDocument(r *rand.Rand, depth int) bson.D {
	d := bson.D{}
	for i := range r.IntN(6) {
		d = append(d, bson.E{Key: fmt.Sprint(anyKey(r), i), Value: anyValue(r, depth)})
	}
	return d
}

func anyKey(r *rand.Rand) string { return []string{"a", "\u00e4", "with space", "q\"q"}[r.IntN(4)] }

// What appendJSON writes is read by the driver as the same document as what the driver writes.
func TestExtendedJSON(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		d := anyDocument(r, 0)
		raw, err := bson.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		got, err := appendJSONDocument(nil, raw, 0)
		if err != nil {
			t.Fatalf("%v: %v", d, err)
		}
		theirs, err := bson.MarshalExtJSON(bson.Raw(raw), false, false)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := reread(t, got), reread(t, theirs); string(a) != string(b) {
			t.Fatalf("got\n%s\nwant\n%s", got, theirs)
		}
	}
}

func reread(t *testing.T, text []byte) []byte {
	t.Helper()
	var d bson.D
	if err := bson.UnmarshalExtJSON(text, false, &d); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	raw, err := bson.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// The forms that consumers see, written out.
func TestExtendedJSONForms(t *testing.T) {
	t.Parallel()
	id, err := bson.ObjectIDFromHex("0123456789abcdef01234567")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := bson.Marshal(bson.D{{Key: "s", Value: "a\"\u00e4\x01"}, {Key: "i", Value: int32(1)}, {Key: "l", Value: int64(1 << 60)}, {Key: "d", Value: 1.0},
		{Key: "f", Value: 1.5}, {Key: "b", Value: true}, {Key: "n", Value: nil}, {Key: "o", Value: id}, {Key: "t", Value: bson.DateTime(1700000000123)},
		{Key: "a", Value: bson.A{1, bson.D{}}}, {Key: "x", Value: bson.Binary{Data: []byte("xy")}}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := appendJSONDocument(nil, raw, 0)
	want := `{"s":"a\"` + "\u00e4" + `\u0001","i":1,"l":1152921504606846976,"d":1.0,"f":1.5,"b":true,"n":null,"o":{"$oid":"0123456789abcdef01234567"},` +
		`"t":{"$date":"2023-11-14T22:13:20.123Z"},"a":[1,{}],"x":{"$binary":{"base64":"eHk=","subType":"00"}}}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
}

// What must be escaped is found wherever it stands, and whatever stands before it; bytes that are no UTF-8 are replaced one by one.
func TestJSONText(t *testing.T) {
	t.Parallel()
	for c := range 256 {
		for _, before := range []byte{0, 0x1f, ' ', '"', '\\', 'x', 0x7f, 0x80, 0xc3, 0xff} {
			for at := 1; at < 20; at++ {
				s := bytes.Repeat([]byte{'x'}, 20)
				s[at-1], s[at] = before, byte(c)
				var got string
				text := appendJSONText(nil, s)
				if err := json.Unmarshal(text, &got); err != nil || got != string([]rune(string(s))) {
					t.Fatalf("%q: got %s, which is %q, %v", s, text, got, err)
				}
			}
		}
	}
}

// Bytes that are no document are an error, never a panic.
func FuzzDocuments(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		raw, err := bson.Marshal(anyDocument(r, 0))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	table := mongotest.Table("tailbox")
	p := NewPlan(&table)
	f.Fuzz(func(_ *testing.T, raw []byte) {
		_, _ = appendJSONDocument(nil, raw, 0)
		d := Decoder{MaxMessage: 1000}
		_ = d.Decode(p, raw, d.NewMessage())
	})
}
