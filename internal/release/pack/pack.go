package pack

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"time"
)

// File is a regular file of an archive.
type File struct {
	Name string      // slash-separated, relative, clean
	Mode fs.FileMode // permission bits
	Data []byte
}

// Tar writes files as a tar archive, folders before what is in them. A name that
// would leave the archive's root, or stands twice, is an error.
func Tar(w io.Writer, files []File, at time.Time) error {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	t := tar.NewWriter(w)
	made := map[string]bool{".": true}
	for i, f := range files {
		if !fs.ValidPath(f.Name) || f.Name == "." {
			return fmt.Errorf("packing %q: not a clean relative path", f.Name)
		}
		if i > 0 && files[i-1].Name == f.Name {
			return fmt.Errorf("packing %q: it stands twice", f.Name)
		}
		if err := folders(t, path.Dir(f.Name), at, made); err != nil {
			return err
		}
		if err := t.WriteHeader(header(f, at)); err != nil {
			return fmt.Errorf("packing %q: %w", f.Name, err)
		}
		if _, err := t.Write(f.Data); err != nil {
			return fmt.Errorf("packing %q: %w", f.Name, err)
		}
	}
	return t.Close()
}

// folders writes dir and those above it, once each: an image's layer without
// them gets folders of whatever mode the runtime likes.
func folders(t *tar.Writer, dir string, at time.Time, made map[string]bool) error {
	if made[dir] {
		return nil
	}
	if err := folders(t, path.Dir(dir), at, made); err != nil {
		return err
	}
	made[dir] = true
	h := &tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: at.UTC().Truncate(time.Second), Format: tar.FormatUSTAR}
	if err := t.WriteHeader(h); err != nil {
		return fmt.Errorf("packing %q: %w", dir, err)
	}
	return nil
}

func header(f File, at time.Time) *tar.Header {
	return &tar.Header{
		Typeflag: tar.TypeReg, Name: f.Name, Size: int64(len(f.Data)), Mode: int64(f.Mode.Perm()),
		// Without fractions of a second the format needs no extension headers.
		ModTime: at.UTC().Truncate(time.Second), Format: tar.FormatUSTAR,
	}
}

// Gzip compresses data. The header carries neither time nor name.
func Gzip(data []byte) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(data); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// TarGz is Tar and then Gzip.
func TarGz(files []File, at time.Time) ([]byte, error) {
	var raw bytes.Buffer
	if err := Tar(&raw, files, at); err != nil {
		return nil, err
	}
	return Gzip(raw.Bytes())
}

// Folder reads the regular files below root of fsys whose path relative to root
// keep accepts, and puts them below prefix. Modes become 0644, or 0755 where the
// owner may execute, so that a umask does not change an archive. A link is an error.
func Folder(fsys fs.FS, root, prefix string, keep func(name string) bool) ([]File, error) {
	sub, err := fs.Sub(fsys, root)
	if err != nil {
		return nil, err
	}
	var files []File
	err = fs.WalkDir(sub, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !keep(name) {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is not a regular file", path.Join(root, name))
		}
		data, err := fs.ReadFile(sub, name)
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if info.Mode()&0o100 != 0 {
			mode = 0o755
		}
		files = append(files, File{Name: path.Join(prefix, name), Mode: mode, Data: data})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("packing %s: %w", root, err)
	}
	return files, nil
}
