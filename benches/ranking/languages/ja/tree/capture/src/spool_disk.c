#include <fcntl.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* 撮影機の一時置き場に残っている空き容量をメガバイト単位で返す。
 * 取得に失敗したら負の値になる。 */
long spool_free_mb(const char *dir)
{
    struct statvfs v;
    if (statvfs(dir, &v) != 0)
        return -1;
    return (long)(v.f_bavail * (v.f_frsize / 1024) / 1024);
}

/* 画像を書き込んだあと、ディスクに確実に同期してから正式な名前に変える。
 * 撮影中に停電しても、壊れた画像が保存庫へ送られることはない。 */
int spool_commit(const char *dir, const char *tmp, const char *final)
{
    int fd = open(tmp, O_RDWR);
    if (fd < 0)
        return -1;
    if (fsync(fd) != 0 || rename(tmp, final) != 0) {
        close(fd);
        return -1;
    }
    close(fd);
    /* ディレクトリ側の変更も同期しないと改名が失われることがある */
    fd = open(dir, O_RDONLY);
    if (fd < 0)
        return -1;
    fsync(fd);
    return close(fd);
}
