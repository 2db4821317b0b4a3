package ledger;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** 월말에 지점주에게 지급할 정산금을 모아 계산하는 배치. */
public class SettlementBatch {
    record Sale(String branch, long won, boolean cancelled) {}

    /** 취소된 매출을 빼고 지점별로 합계를 낸 뒤 본사 수수료를 떼어 지급액을 산출한다. */
    static Map<String, Long> payouts(List<Sale> sales, int feePermille) {
        Map<String, Long> sum = new TreeMap<>();
        for (Sale s : sales) {
            if (!s.cancelled()) {
                sum.merge(s.branch(), s.won(), Long::sum);
            }
        }
        sum.replaceAll((b, won) -> won - won * feePermille / 1000);
        return sum;
    }

    /**
     * 우리 장부와 카드사가 보내온 내역을 맞추어 보고 한쪽에만 있는 거래를 골라낸다.
     * 금액이 다른 것도 어긋난 것으로 본다.
     */
    static List<String> reconcile(Map<String, Long> ours, Map<String, Long> theirs) {
        List<String> odd = new ArrayList<>();
        ours.forEach((id, won) -> {
            if (!won.equals(theirs.get(id))) {
                odd.add(id);
            }
        });
        theirs.keySet().stream().filter(id -> !ours.containsKey(id)).forEach(odd::add);
        return odd;
    }
}
