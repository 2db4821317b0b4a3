package jp.kura.kengen;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.util.HexFormat;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** 高精細画像をダウンロードするための署名付き URL を扱う。 */
public final class ShomeiUrl {
    private final SecretKeySpec key;

    public ShomeiUrl(byte[] secret) {
        this.key = new SecretKeySpec(secret, "HmacSHA256");
    }

    /** パスと有効期限に鍵付きハッシュの署名を添えて、リンクを発行する。 */
    public String issue(String path, long expires) throws GeneralSecurityException {
        return path + "?e=" + expires + "&s=" + mac(path + expires);
    }

    /** 署名が正しく、かつ期限内であることを確かめる。他の資料にリンクを使い回すと弾かれる。 */
    public boolean verify(String path, long expires, String sig, long now) throws GeneralSecurityException {
        return now < expires && mac(path + expires).equals(sig);
    }

    /** 文字列の鍵付きハッシュを十六進数で求める。 */
    private String mac(String text) throws GeneralSecurityException {
        Mac m = Mac.getInstance("HmacSHA256");
        m.init(key);
        return HexFormat.of().formatHex(m.doFinal(text.getBytes(StandardCharsets.UTF_8)));
    }
}
